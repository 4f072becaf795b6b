package main

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// trustOfJava gives Java a trust store, which replaces the one that it has. Who
// named one already keeps that: it may be of any format, under any password.
func (e *environment) trustOfJava(b *bundles, usual []string) error {
	if strings.Contains(e.get("JAVA_TOOL_OPTIONS"), "-Djavax.net.ssl.trustStore=") {
		e.log.Warn("JAVA_TOOL_OPTIONS names a trust store of its own: Java programs will not trust what is intercepted")
		return nil
	}
	trusted := e.javaRoots()
	if trusted != nil {
		usual = nil // for the root alone
	}
	for _, block := range b.with(usual) {
		if block.Type == pemCertificate {
			trusted = append(trusted, block.Bytes)
		}
	}
	path, err := b.dir.write("java.jks", trustStore(trusted, time.Now()))
	if err != nil {
		return err
	}
	e.add("JAVA_TOOL_OPTIONS", javaQuoted("-Djavax.net.ssl.trustStore="+path),
		"-Djavax.net.ssl.trustStoreType=JKS", "-Djavax.net.ssl.trustStorePassword="+storePassword)
	return nil
}

// javaRoots returns what the Java that a command most likely runs trusts, or nil
// where that cannot be read: from 18 on it is a PKCS #12 file, with what the
// system has as well.
func (e *environment) javaRoots() [][]byte {
	home := e.get("JAVA_HOME")
	if home == "" {
		program, err := exec.LookPath("java")
		if err != nil {
			return nil
		}
		if program, err = filepath.EvalSymlinks(program); err != nil {
			return nil
		}
		home = filepath.Dir(filepath.Dir(program))
	}
	for _, name := range []string{
		"lib/security/jssecacerts", "lib/security/cacerts", "jre/lib/security/jssecacerts", "jre/lib/security/cacerts",
	} {
		data, err := os.ReadFile(filepath.Join(home, name))
		if err != nil {
			continue
		}
		trusted, err := readTrustStore(data)
		if err != nil {
			e.log.Debug("a trust store of Java's is passed by", slog.String("file", filepath.Join(home, name)), slog.Any("error", err))
			return nil
		}
		return trusted
	}
	return nil
}

// A trust store in Java's own format, JKS, as sun.security.provider.JavaKeyStore
// reads and writes it. All numbers are big-endian, texts have their length before
// them in two bytes:
//
//	magic, version 2, the number of entries
//	each entry: 2 (a trusted certificate), its name, milliseconds since 1970,
//	"X.509", the certificate's length in four bytes, the certificate
//	SHA-1 of the password in UTF-16, "Mighty Aphrodite" and all before this
const (
	jksMagic     = 0xfeedfeed
	jksVersion   = 2
	jksTrusted   = 2
	jksType      = "X.509"
	jksSalt      = "Mighty Aphrodite"
	jksDigestLen = sha1.Size

	storePassword = "changeit" // Java's own for what it trusts; it keeps no secret
)

// trustStore writes one. A certificate that cannot be read would make Java refuse
// all of them, so it is left out.
func trustStore(certificates [][]byte, now time.Time) []byte {
	var entries bytes.Buffer
	n := uint32(0)
	for _, der := range certificates {
		if _, err := x509.ParseCertificate(der); err != nil {
			continue
		}
		n++
		put(&entries, uint32(jksTrusted))
		putText(&entries, fmt.Sprintf("mulligan-%d", n))
		put(&entries, now.UnixMilli())
		putText(&entries, jksType)
		put(&entries, uint32(len(der)))
		entries.Write(der)
	}
	var store bytes.Buffer
	put(&store, uint32(jksMagic))
	put(&store, uint32(jksVersion))
	put(&store, n)
	store.Write(entries.Bytes())
	digest := jksDigest(store.Bytes())
	return append(store.Bytes(), digest[:]...)
}

func put(w *bytes.Buffer, number any) { _ = binary.Write(w, binary.BigEndian, number) }

func putText(w *bytes.Buffer, text string) {
	put(w, uint16(len(text)))
	w.WriteString(text)
}

// jksDigest is what stands at the end, and tells of damage.
func jksDigest(store []byte) [jksDigestLen]byte {
	h := sha1.New()
	for _, c := range storePassword {
		h.Write([]byte{0, byte(c)})
	}
	h.Write([]byte(jksSalt))
	h.Write(store)
	return [jksDigestLen]byte(h.Sum(nil))
}

// readTrustStore returns the certificates of one. Its digest is not checked: the
// password may be any, and Java itself does not check it where it is told none.
func readTrustStore(data []byte) ([][]byte, error) {
	r := &jksReader{data: data}
	if r.number(4) != jksMagic || r.number(4) != jksVersion {
		return nil, errors.New("not a JKS file of version 2")
	}
	entries := r.number(4)
	certificates := [][]byte{}
	for ; entries > 0; entries-- {
		if r.number(4) != jksTrusted && !r.short {
			return nil, errors.New("it has more than trusted certificates")
		}
		r.bytes(r.number(2)) // name
		r.bytes(8)           // date
		kind := string(r.bytes(r.number(2)))
		der := r.bytes(r.number(4))
		switch {
		case r.short:
			return nil, errors.New("it ends too early")
		case kind == jksType:
			certificates = append(certificates, der)
		}
	}
	if r.short {
		return nil, errors.New("it ends too early")
	}
	return certificates, nil
}

// jksReader reads numbers and bytes; after the end it returns nothing, and short
// is set.
type jksReader struct {
	data  []byte
	short bool
}

func (r *jksReader) bytes(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.short, r.data = true, nil
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *jksReader) number(size uint64) (n uint64) {
	for _, b := range r.bytes(size) {
		n = n<<8 | uint64(b)
	}
	return n
}
