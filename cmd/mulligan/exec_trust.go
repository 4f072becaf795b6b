package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// bundles writes files of certificates: what was trusted before, then the root.
// Mostly that is the same for all programs, and one file does.
type bundles struct {
	dir     *privateDir
	root    []byte // PEM
	log     *slog.Logger
	written map[string]string // the file, by what it was made from
	warned  map[string]bool   // what cannot be read
}

// file returns a file with the certificates that the given files and directories
// hold, and the root. What cannot be read is warned of, and left out.
func (b *bundles) file(had []string) (string, error) {
	key := strings.Join(had, "\x00")
	if path, done := b.written[key]; done {
		return path, nil
	}
	name := "ca.pem"
	if n := len(b.written); n > 0 {
		name = fmt.Sprintf("ca-%d.pem", n+1)
	}
	var text bytes.Buffer
	for _, block := range b.with(had) {
		_ = pem.Encode(&text, block)
	}
	path, err := b.dir.write(name, text.Bytes())
	if err != nil {
		return "", err
	}
	b.written[key] = path
	return path, nil
}

// with returns what such a file holds.
func (b *bundles) with(had []string) []*pem.Block {
	all := &certificates{known: map[string]bool{}}
	for _, path := range had {
		if err := all.read(path); err != nil && !b.warned[path] {
			b.warned[path] = true
			b.log.Warn("certificates that the command's environment names cannot be read, so that it will not trust them", slog.Any("error", err))
		}
	}
	all.add(b.root)
	return all.blocks
}

// certificates are PEM blocks, each once.
type certificates struct {
	blocks []*pem.Block
	known  map[string]bool
}

// add takes the certificates of a PEM file, and nothing else that it has. OpenSSL
// has a kind of its own, which says what else the certificate is good for.
func (c *certificates) add(data []byte) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if (block.Type == pemCertificate || block.Type == "TRUSTED CERTIFICATE") && !c.known[string(block.Bytes)] {
			c.known[string(block.Bytes)] = true
			c.blocks = append(c.blocks, &pem.Block{Type: block.Type, Bytes: block.Bytes})
		}
	}
}

const pemCertificate = "CERTIFICATE"

// read takes those of a file, or of the files in a directory, which may have each
// under several names, and other files as well.
func (c *certificates) read(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		c.add(data)
		return err
	}
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Size() <= 1<<20 {
			data, _ := os.ReadFile(name) // OpenSSL does not mind either
			c.add(data)
		}
	}
	return err
}

// Where systems have what they trust: one file, or a directory. The first that is
// there counts.
var systemPlaces = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Gentoo, Arch
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, older RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",                                 // Alpine, macOS, the BSDs
	"/usr/local/etc/ssl/cert.pem",                       // FreeBSD
	"/etc/ssl/certs",
	"/etc/pki/tls/certs",
}

// systemRoots returns the place that counts, if there is one.
func systemRoots() []string {
	for _, path := range systemPlaces {
		found := certificates{known: map[string]bool{}}
		if err := found.read(path); err == nil && len(found.blocks) > 0 {
			return []string{path}
		}
	}
	return nil
}

// trustOfWget writes a wgetrc: wget, where it is made with GnuTLS, reads no
// variable. What the user's own says comes first.
func (e *environment) trustOfWget(b *bundles, usual []string) error {
	own := e.get("WGETRC")
	if own == "" && e.get("HOME") != "" {
		own = filepath.Join(e.get("HOME"), ".wgetrc")
	}
	text, _ := os.ReadFile(own) // most users have none
	had := usual
	if path := wgetSetting(text, "cacertificate"); path != "" {
		had = []string{path}
	}
	bundle, err := b.file(had)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(own); err == nil {
		mode = info.Mode().Perm() & 0o644 // it may have passwords in it
	}
	path, err := b.dir.writeFor("wgetrc", fmt.Appendf(text, "\nca_certificate = %s\n", bundle), mode)
	if err == nil {
		e.set("WGETRC", path)
	}
	return err
}

// wgetSetting returns what a wgetrc says of a command, whose name is written in
// any case and with any dashes and underscores.
func wgetSetting(text []byte, name string) string {
	value := ""
	for line := range strings.Lines(string(text)) {
		key, v, ok := strings.Cut(line, "=")
		key = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(strings.TrimSpace(key)))
		if ok && key == name {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

// trustOfPHP adds a directory to those where PHP looks for settings. A list that
// begins with nothing begins with the directory that PHP was built with.
func (e *environment) trustOfPHP(b *bundles, usual []string) error {
	bundle, err := b.file(usual)
	if err != nil {
		return err
	}
	path, err := b.dir.write("php/mulligan.ini", fmt.Appendf(nil, "curl.cainfo=\"%s\"\nopenssl.cafile=\"%s\"\n", bundle, bundle))
	if err != nil {
		return err
	}
	had, set := e.lookup("PHP_INI_SCAN_DIR")
	if had != "" || !set { // set to nothing, it stands for no directory at all
		had += string(os.PathListSeparator)
	}
	e.set("PHP_INI_SCAN_DIR", had+filepath.Dir(path))
	return nil
}
