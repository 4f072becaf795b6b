package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// digest stands for what a file holds.
type digest = [sha256.Size]byte

// fileSet is the configuration's own file and those it names.
type fileSet struct {
	own     string          // absolute
	dir     string          // where relative names start
	named   map[string]bool // by the configuration; some cannot be read
	data    map[string][]byte
	digests map[string]digest

	verdicts map[string]string // what is wrong with a file or a pair of them, or ""
}

func newFileSet(file string) *fileSet {
	own := absolute(file)
	return &fileSet{own, filepath.Dir(own), make(map[string]bool), make(map[string][]byte), make(map[string]digest), make(map[string]string)}
}

// read returns the absolute name of the file and what is in it.
func (f *fileSet) read(name string) (string, []byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(f.dir, name)
	}
	name = filepath.Clean(name)
	f.named[name] = true
	if data, ok := f.data[name]; ok {
		return name, data, nil
	}
	// A pipe or a device would never end.
	if info, err := os.Stat(name); err != nil {
		return "", nil, err
	} else if !info.Mode().IsRegular() {
		return "", nil, errors.New("not a regular file")
	} else if info.Size() > maxFile {
		return "", nil, errors.New("larger than 1MiB")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", nil, err
	}
	f.data[name], f.digests[name] = data, sha256.Sum256(data)
	return name, data, nil
}

// names returns all files, the configuration's own first.
func (f *fileSet) names() []string {
	return append([]string{f.own}, slices.Sorted(maps.Keys(f.named))...)
}

// pemFile reads the name of a file and makes it absolute; wrong says why its
// contents are not what is wanted, or "".
func pemFile(what string, wrong func(data []byte) string) reader[string] {
	return optional(func(d *decoder, n *yaml.Node, v *string) {
		s, ok := d.scalar(n)
		if !ok {
			return
		}
		name, data, err := d.files.read(s.text)
		if err != nil {
			hint := ""
			if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(s.text) {
				hint = "files are looked for where this configuration is"
			}
			d.failHint(n, hint, "cannot read %s: %s", s, reason(err))
			return
		}
		if problem := d.files.verdict(what+name, func() string { return wrong(data) }); problem != "" {
			d.failHint(n, pemHint(what, data), "%s %s", s, problem)
			return
		}
		*v = name
	})
}

// What files of PEM are wanted for.
const certificates, privateKey = "certificates ", "key "

// pemHint says how to make of the file what is wanted.
func pemHint(wanted string, data []byte) string {
	if len(data) > 1 && data[0] == 0x30 && data[1]&0x80 != 0 { // an ASN.1 SEQUENCE of some length, which DER begins with
		return "it looks like DER: openssl x509 -inform der -in FILE makes PEM of a certificate, openssl pkey -inform der of a key"
	}
	var certificate, key, encrypted bool
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		certificate = certificate || block.Type == "CERTIFICATE"
		key = key || strings.HasSuffix(block.Type, "PRIVATE KEY")
		encrypted = encrypted || isEncrypted(block)
	}
	switch {
	case !certificate && !key:
		return "PEM begins with a line such as -----BEGIN CERTIFICATE-----"
	case wanted == privateKey && encrypted:
		return "openssl pkey -in FILE writes it without a password"
	case wanted == privateKey && !key:
		return "it holds a certificate"
	case wanted == certificates && !certificate:
		return "it holds a private key"
	}
	return ""
}

func isEncrypted(block *pem.Block) bool {
	return block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != ""
}

// certificatesWrong looks at a file of certificates.
func certificatesWrong(data []byte) string {
	found := false
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "has a certificate that cannot be read: " + strings.TrimPrefix(err.Error(), "x509: ")
		}
		found = true
	}
	if !found {
		return "has no certificate in PEM form"
	}
	return ""
}

// keyWrong looks at a file with a private key. What is in the key shows only
// beside its certificate.
func keyWrong(data []byte) string {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if isEncrypted(block) {
			return "is encrypted, and there is nobody to ask for its password"
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return ""
		}
	}
	return "has no private key in PEM form"
}

// checkTLS wants a client's certificate and key together.
func checkTLS(d *decoder, v *policy.TLS, w written) {
	d.checkPair(w, "client_cert_file", "client_key_file", v.ClientCertFile, v.ClientKeyFile)
}

// checkPair wants a certificate and its key together: the keys that name the
// files, and what was read of them. One that is written wrong is still one that
// is written.
func (d *decoder) checkPair(w written, certName, keyName, certFile, keyFile string) {
	cert, key := certFile != "" || w.doubtful(certName), keyFile != "" || w.doubtful(keyName)
	switch {
	case cert && !key:
		d.needs(w, certName, keyName)
	case key && !cert:
		d.needs(w, keyName, certName)
	case certFile != "" && keyFile != "" && !w.doubtful(certName, keyName):
		if wrong := d.files.pairWrong(certFile, keyFile); wrong != "" {
			d.complain(w.at(keyName), "it has to be the key of the first certificate in the other file", "%s does not fit %s: %s", keyName, certName, wrong)
		} else if when := d.files.outdated(certFile, time.Now()); when != "" {
			d.warn(w.at(certName), "the certificate %s: whoever checks it will refuse it", when)
		}
	}
}

// needs reports that one key stands in a map without the other.
func (d *decoder) needs(w written, one, other string) {
	if n := w.at(one); n != nil {
		d.complain(n, "write "+other+" beside it", "%s needs a %s", one, other)
	}
}

// pairWrong looks at a certificate and its key together.
func (f *fileSet) pairWrong(cert, key string) string {
	return f.verdict(cert+"\x00"+key, func() string {
		if _, err := tls.X509KeyPair(f.data[cert], f.data[key]); err != nil {
			return strings.TrimPrefix(err.Error(), "tls: ")
		}
		return ""
	})
}

// outdated says when the first certificate of a file is valid, if that is not now.
func (f *fileSet) outdated(file string, now time.Time) string {
	for block, rest := pem.Decode(f.data[file]); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return ""
		case now.After(leaf.NotAfter):
			return "has expired (" + leaf.NotAfter.UTC().Format(time.RFC3339) + ")"
		case now.Before(leaf.NotBefore):
			return "is not valid yet (from " + leaf.NotBefore.UTC().Format(time.RFC3339) + ")"
		}
		return ""
	}
	return ""
}

// verdict is what look finds, which is asked once: many upstreams may share a
// long file.
func (f *fileSet) verdict(about string, look func() string) string {
	found, ok := f.verdicts[about]
	if !ok {
		found = look()
		f.verdicts[about] = found
	}
	return found
}
