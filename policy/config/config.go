package config

import (
	"net/netip"
	"reflect"
	"time"

	"mulligan/policy"
)

// Config is a whole configuration, checked and with everything inherited in its
// place.
type Config struct {
	Proxy        string              // address of the proxy's listener, as written; host:port
	Admin        string              // address of the admin listener
	ProxyTLS     *policy.ListenerTLS // nil: plain
	AdminTLS     *policy.ListenerTLS
	ProxyWritten bool // the file has the proxy's address: it is no default
	AdminWritten bool
	AllowClients []netip.Prefix // who may connect to a listener; empty: anyone
	Auth         *Auth          // credentials that clients must give; nil: none
	AdminHosts   []string       // names, lower-case, by which the admin port may be called

	DataDir        string // what mulligan itself keeps; as written: relative to the working directory
	DataDirWritten bool   // the file has it

	DenyUnmatched bool // hosts that no upstream names get 403, not Default

	Log           Log
	ShutdownDelay time.Duration // keep serving, but not ready, for so long after SIGTERM
	ShutdownGrace time.Duration // then let what is in flight finish for so long

	BufferTotal int64 // all replay and held bytes together
	Via         bool  // Via on responses

	AllowDestinations []netip.Prefix // lifts built-in denials
	DenyDestinations  []netip.Prefix // beats AllowDestinations
	ParentProxy       string         // http://[user:password@]host:port that dials go through; "" none

	Default   *policy.Upstream   // hosts that no upstream names; its name is "default"
	Upstreams []*policy.Upstream // in the order of the file

	// Warnings say what is legal, but probably not what was meant, each with
	// its file:line:column.
	Warnings []string

	files   []string
	digests map[string]digest
	empty   bool
}

// Auth is the one user that listeners ask for.
type Auth struct {
	Username, Password string
}

// Log says what is logged and how.
type Log struct {
	JSON   bool   // else text
	Level  string // debug, info, warn or error
	Access bool   // one line a request
}

// DefaultName is the name of the upstream for hosts that no upstream names, and
// of an upstream's own policy among its routes.
const DefaultName = "default"

// Files returns the files that the configuration was read from, absolute: its
// own, and those it names. When one of them changes, it is to be read again.
func (c *Config) Files() []string { return c.files }

// Empty reports whether the configuration was read from a file that holds nothing,
// or nothing but comments: it is valid, and it is what a file looks like that is
// about to be written.
func (c *Config) Empty() bool { return c.empty }

// Unchanged reports whether the upstream of this name is the same in both
// configurations, down to the bytes of the files it names, so that what is kept
// for it (connections, TLS sessions) may live on.
func (c *Config) Unchanged(old *Config, name string) bool {
	before, now := old.upstream(name), c.upstream(name)
	if before == nil || now == nil || !reflect.DeepEqual(before, now) {
		return false
	}
	for _, file := range []string{now.TLS.CAFile, now.TLS.ClientCertFile, now.TLS.ClientKeyFile} {
		if old.digests[file] != c.digests[file] {
			return false
		}
	}
	return true
}

func (c *Config) upstream(name string) *policy.Upstream {
	if name == DefaultName {
		return c.Default
	}
	for _, u := range c.Upstreams {
		if u.Name == name {
			return u
		}
	}
	return nil
}
