package config

import (
	"net/netip"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// Keys returns every key that a configuration can have, dotted, in the order of
// the documentation. NAME stands for a name that the user gives; keys inside of
// the maps of a list follow the list's own key.
func Keys() []string { return topLevel.keys() }

// topLevel is the schema of the file. `defaults` is read before `upstreams`,
// which inherit from it.
var topLevel = object[Config]{fields: concat(
	fields(
		section("listen", &listenKeys, itself[Config]),
		key("data_dir", readDataDir, itself[Config]),
		key("unmatched", oneOf(choice[bool]{"allow", false}, choice[bool]{"deny", true}),
			func(c *Config) *bool { return &c.DenyUnmatched }),
		section("log", &logKeys, func(c *Config) *Log { return &c.Log }),
		key("shutdown_delay", anyDuration, func(c *Config) *time.Duration { return &c.ShutdownDelay }),
		key("shutdown_grace", anyDuration, func(c *Config) *time.Duration { return &c.ShutdownGrace }),
		section("defaults", &defaultsKeys, func(c *Config) *policy.Upstream { return c.Default }),
		key("buffer_total", size, func(c *Config) *int64 { return &c.BufferTotal }),
		key("via", boolean, func(c *Config) *bool { return &c.Via }),
		section("destinations", &destinationKeys, itself[Config]),
		key("parent_proxy", optional(parentProxy), func(c *Config) *string { return &c.ParentProxy }),
		key("upstreams", readUpstreams, itself[Config]).holding(func() []string { return inside("NAME", upstreamKeys.keys()) }),
	),
	notYet[Config]("store", "encryption_key_file", "dead_letters", "durability"),
)}

var listenKeys = object[Config]{fields: fields(
	key("proxy", readProxyDoor, itself[Config]).holding(doorKeys.keys),
	key("admin", readAdminDoor, itself[Config]).holding(doorKeys.keys),
	key("allow_clients", list(prefix), func(c *Config) *[]netip.Prefix { return &c.AllowClients }),
	key("auth", readAuth, itself[Config]).holding(authKeys.keys),
	key("admin_hosts", list(plainHost), func(c *Config) *[]string { return &c.AdminHosts }),
)}

// readDataDir reads the directory for what mulligan itself keeps.
func readDataDir(d *decoder, n *yaml.Node, c *Config) {
	parsed(func(text string) (dir, wrong, hint string) {
		if text == "" {
			return "", "is empty", ""
		}
		return text, "", ""
	})(d, n, &c.DataDir)
	c.DataDirWritten = true
}

var authKeys = object[Auth]{fields: fields(
	key("username", credential(":"), func(a *Auth) *string { return &a.Username }).must(),
	key("password", credential(""), func(a *Auth) *string { return &a.Password }).must(),
)}

// readAuth reads the user that listeners ask for; an empty map is none.
func readAuth(d *decoder, n *yaml.Node, c *Config) {
	if target := resolve(n); isNull(target) || target.Kind == yaml.MappingNode && len(target.Content) == 0 {
		return
	}
	c.Auth = new(Auth)
	authKeys.read(d, n, c.Auth)
}

// credential reads a user name or password, which no message shows. RFC 7617
// section 2: no control characters, and no colon in the name.
func credential(forbidden string) reader[string] {
	return func(d *decoder, n *yaml.Node, v *string) {
		s, ok := d.scalar(n)
		switch {
		case !ok:
		case s.text == "":
			d.fail(n, "is empty")
		case strings.ContainsFunc(s.text, func(r rune) bool { return r < ' ' || r == 0x7f }):
			d.fail(n, "has a control character in it")
		case forbidden != "" && strings.Contains(s.text, forbidden):
			d.fail(n, "has a %s in it", forbidden)
		default:
			*v = s.text
		}
	}
}

var logKeys = object[Log]{fields: fields(
	key("format", oneOf(choice[bool]{"text", false}, choice[bool]{"json", true}), func(l *Log) *bool { return &l.JSON }),
	key("level", oneOf(choice[string]{"debug", "debug"}, choice[string]{"info", "info"},
		choice[string]{"warn", "warn"}, choice[string]{"error", "error"}), func(l *Log) *string { return &l.Level }),
	key("access", boolean, func(l *Log) *bool { return &l.Access }),
)}

var destinationKeys = object[Config]{fields: fields(
	key("allow", list(prefix), func(c *Config) *[]netip.Prefix { return &c.AllowDestinations }),
	key("deny", list(prefix), func(c *Config) *[]netip.Prefix { return &c.DenyDestinations }),
)}

// fields lets the compiler find out T.
func fields[T any](all ...field[T]) []field[T] { return all }

func concat[T any](parts ...[]field[T]) []field[T] {
	var all []field[T]
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// inside puts a step in front of keys.
func inside(step string, keys []string) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = step + "." + key
	}
	return all
}
