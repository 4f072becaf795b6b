package config

import (
	"net/netip"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// door is a listener as a configuration writes it: an address, or a map with one
// and what it takes to speak TLS there.
type door struct {
	address string
	tls     *policy.ListenerTLS
}

// doorKeys is the long form of a listener.
var doorKeys = object[door]{
	fields: fields(
		key("address", listenAddress, func(l *door) *string { return &l.address }).must(),
		key("tls", readListenerTLS, itself[door]).holding(listenerTLSKeys.keys),
	),
	check: checkDoor,
}

// read reads a listener in either of its forms.
func (l *door) read(d *decoder, n *yaml.Node) {
	if target := d.follow(n); target != nil && target.Kind == yaml.MappingNode {
		doorKeys.read(d, n, l)
	} else if target != nil {
		listenAddress(d, n, &l.address)
	}
}

func readProxyDoor(d *decoder, n *yaml.Node, c *Config) {
	l := door{address: c.Proxy}
	l.read(d, n)
	c.Proxy, c.ProxyTLS, c.ProxyWritten = l.address, l.tls, true
}

func readAdminDoor(d *decoder, n *yaml.Node, c *Config) {
	l := door{address: c.Admin}
	l.read(d, n)
	c.Admin, c.AdminTLS, c.AdminWritten = l.address, l.tls, true
}

// readOwnDoor reads an upstream's own port.
func readOwnDoor(d *decoder, n *yaml.Node, u *policy.Upstream) {
	l := door{address: u.Listen}
	l.read(d, n)
	u.Listen, u.ListenTLS = l.address, l.tls
}

// The keys by which a listener's certificate is got.
const (
	internalName = "internal"
	acmeName     = "acme"
	certFileName = "cert_file"
	keyFileName  = "key_file"
	namesName    = "names"
)

var listenerTLSKeys = object[policy.ListenerTLS]{fields: fields(
	key(internalName, boolean, func(t *policy.ListenerTLS) *bool { return &t.Internal }),
	key(acmeName, readACME, itself[policy.ListenerTLS]).holding(acmeKeys.keys),
	key(namesName, list(plainHost), func(t *policy.ListenerTLS) *[]string { return &t.Names }),
	key(certFileName, pemFile(certificates, certificatesWrong), func(t *policy.ListenerTLS) *string { return &t.CertFile }),
	key(keyFileName, pemFile(privateKey, keyWrong), func(t *policy.ListenerTLS) *string { return &t.KeyFile }),
)}

var acmeKeys = object[policy.ACME]{fields: fields(
	key("email", optional(email), func(a *policy.ACME) *string { return &a.Email }),
	key("directory", optional(directory), func(a *policy.ACME) *string { return &a.Directory }),
	key("ca_file", pemFile(certificates, certificatesWrong), func(a *policy.ACME) *string { return &a.CAFile }),
	key("http_port", integer(1, mostPort), func(a *policy.ACME) *int { return &a.HTTPPort }),
	key("tls_alpn_port", integer(1, mostPort), func(a *policy.ACME) *int { return &a.TLSALPNPort }),
)}

const mostPort = 65_535

// readListenerTLS reads what it takes to speak TLS at a listener.
func readListenerTLS(d *decoder, n *yaml.Node, l *door) {
	l.tls = new(policy.ListenerTLS)
	if target := d.follow(n); target != nil && target.Kind == yaml.ScalarNode && !isNull(target) {
		d.failHint(n, "write tls: {internal: true}, or acme, or cert_file and key_file", "needs a map (key: value), not %s", kind(target))
		return
	}
	if w, ok := listenerTLSKeys.walk(d, n, l.tls); ok {
		d.checkListenerTLS(n, l.tls, w)
	}
}

// readACME reads an authority; an empty map is the one that the client chooses.
func readACME(d *decoder, n *yaml.Node, t *policy.ListenerTLS) {
	t.ACME = new(policy.ACME)
	acmeKeys.read(d, n, t.ACME)
}

// email reads an address for an authority's account, as far as a slip shows.
var email = parsed(func(text string) (string, string, string) {
	name, host, _ := strings.Cut(text, "@")
	if name == "" || host == "" || strings.Contains(host, "@") || hasBlank(text) || strings.ContainsAny(name, ":<>") {
		return "", "is not an e-mail address", "write one such as ops@example.com, without mailto:"
	}
	return text, "", ""
})

// directory reads the URL of an ACME authority's directory, which is https
// (RFC 8555 6.1).
var directory = parsed(func(text string) (string, string, string) {
	const example = "https://acme.example.com/directory"
	u, _, wrong, hint := parseURL(text, example)
	switch {
	case wrong != "":
		return "", wrong, hint
	case u.User != nil:
		return "", "has a user name in it", "write a URL such as " + example
	case u.Scheme != "https":
		return "", "is not https", "write a URL such as " + example
	}
	return u.String(), "", ""
})

// checkListenerTLS wants a certificate to come from one place. A key that is
// written wrong is still one that is written.
func (d *decoder) checkListenerTLS(n *yaml.Node, t *policy.ListenerTLS, w written) {
	isFiles := t.CertFile != "" || t.KeyFile != "" || w.doubtful(certFileName, keyFileName)
	kinds := []struct {
		name string
		on   bool
	}{
		{internalName, t.Internal || w.doubtful(internalName)},
		{acmeName, t.ACME != nil || w.doubtful(acmeName)},
		{certFileName, t.CertFile != "" || w.doubtful(certFileName)},
		{keyFileName, t.CertFile == "" && isFiles},
	}
	first := ""
	for _, kind := range kinds {
		switch {
		case !kind.on:
		case first == "":
			first = kind.name
		case w.right(first) != nil && w.right(kind.name) != nil:
			d.complain(w.at(kind.name), "keep one of internal, acme, and cert_file with key_file",
				"%s says where the certificate comes from, and so does %s", first, kind.name)
			return
		}
	}
	if first == "" {
		d.complain(n, "write internal: true, or acme, or cert_file and key_file", "nothing says where the certificate comes from")
		return
	}
	d.checkPair(w, certFileName, keyFileName, t.CertFile, t.KeyFile)
	d.checkNames(t, w, isFiles)
}

// checkNames looks at what a certificate is for: an authority must be told, a
// file has it in it.
func (d *decoder) checkNames(t *policy.ListenerTLS, w written, isFiles bool) {
	names := w.right(namesName)
	switch {
	case t.ACME != nil && len(t.Names) == 0 && !w.doubtful(namesName):
		d.complain(w.at(acmeName), "write names: [proxy.example.com] beside it", "acme needs names to get a certificate for")
	case t.ACME != nil && slices.ContainsFunc(t.Names, isIP):
		d.complain(names, "leave it out, or write internal: true instead of acme", "names has an address, and acme is for names of hosts")
	case isFiles && !t.Internal && t.ACME == nil && names != nil && !w.doubtful(internalName, acmeName):
		d.complain(names, "leave names out", "the names are in the certificate of cert_file")
	}
}

func isIP(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// checkDoor warns of a listener whose names no authority elsewhere can check.
func checkDoor(d *decoder, l *door, w written) {
	if at := w.right("address"); at != nil && l.tls != nil && l.tls.ACME != nil {
		if a, wrong, _ := parseAddress(l.address); wrong == "" && a.loopback() {
			d.warn(at, "acme: an authority that is not on this machine cannot reach this address to check the names")
		}
	}
}
