package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// digest stands for what a file holds.
type digest = [sha256.Size]byte

// fileSet is the configuration's own file and those it names.
type fileSet struct {
	own     string // absolute
	dir     string // where relative names start
	data    map[string][]byte
	digests map[string]digest
}

func newFileSet(file string) *fileSet {
	own := absolute(file)
	return &fileSet{own, filepath.Dir(own), make(map[string][]byte), make(map[string]digest)}
}

// read returns the absolute name of the file and what is in it.
func (f *fileSet) read(name string) (string, []byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(f.dir, name)
	}
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
	names := make([]string, 0, len(f.data)+1)
	for name := range f.data {
		names = append(names, name)
	}
	slices.Sort(names)
	return append([]string{f.own}, names...)
}

// pemFile reads the name of a file and makes it absolute; wrong says what is
// the matter with its contents, or "".
func pemFile(wrong func(data []byte) string) reader[string] {
	return optional(func(d *decoder, n *yaml.Node, v *string) {
		s, ok := d.scalar(n)
		if !ok {
			return
		}
		name, data, err := d.files.read(s.text)
		if err != nil {
			d.fail(n, "cannot read %s: %s", s, reason(err))
			return
		}
		if problem := wrong(data); problem != "" {
			d.fail(n, "%s %s", s, problem)
			return
		}
		*v = name
	})
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
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
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
	cert, key := v.ClientCertFile, v.ClientKeyFile
	switch {
	case w.wrong("client_cert_file", "client_key_file"), cert == "" && key == "":
	case key == "":
		d.fail(w["client_cert_file"], "client_cert_file needs a client_key_file")
	case cert == "":
		d.fail(w["client_key_file"], "client_key_file needs a client_cert_file")
	default:
		if _, err := tls.X509KeyPair(d.files.data[cert], d.files.data[key]); err != nil {
			d.fail(w["client_key_file"], "client_key_file does not fit client_cert_file: %s",
				strings.TrimPrefix(err.Error(), "tls: "))
		}
	}
}
