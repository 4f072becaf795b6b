package config

import "strings"

// The keys of the two listeners that there always are.
const (
	proxyKey = "listen.proxy"
	adminKey = "listen.admin"

	listenStep  = "listen."
	addressStep = ".address" // in the long form
)

// checkListeners looks at all listeners together: none may have another's
// address, and one that others can reach must say who may use it.
func (d *decoder) checkListeners(c *Config) {
	var all []listener
	taken := make(occupied)
	for _, l := range append(d.defaultListeners(c), d.listeners...) {
		if d.doubted(l.key) {
			continue
		}
		if first, ok := taken.first(l.address); ok {
			d.collision(all[first], l)
		}
		taken.add(l.address, len(all))
		all = append(all, l)
		if l.node != nil {
			d.checkReach(l, c)
		}
	}
}

// defaultListeners returns the listeners that the file does not write.
func (d *decoder) defaultListeners(c *Config) []listener {
	var all []listener
	for _, l := range []listener{{key: proxyKey, shown: c.Proxy}, {key: adminKey, shown: c.Admin}} {
		if !d.wrote(l.key) {
			l.address, _, _ = parseAddress(l.shown)
			all = append(all, l)
		}
	}
	return all
}

// wrote reports whether the file has the listener, in either of its forms.
func (d *decoder) wrote(key string) bool {
	for _, l := range d.listeners {
		if l.key == key || l.key == key+addressStep {
			return true
		}
	}
	return false
}

// doubted reports whether it is not known what is meant to listen at key.
func (d *decoder) doubted(key string) bool {
	short := strings.TrimSuffix(key, addressStep)
	return strings.HasPrefix(key, listenStep) && d.doubts["listen"] || d.doubts[short] || d.doubts[short+addressStep]
}

// collision reports that l has the address of one before it.
func (d *decoder) collision(first, l listener) {
	how := "already"
	if first.node == nil {
		how = "by default"
	}
	d.within(l.key, func() {
		d.complain(l.node, "give each listener a port of its own", "%s is the address of %s %s", l.shown, first.key, how)
	})
}

// checkReach wants a listener that is not loopback to say who may use it.
func (d *decoder) checkReach(l listener, c *Config) {
	if l.address.loopback() {
		return
	}
	isAdmin := strings.HasPrefix(l.key, adminKey)
	isReverse := !isAdmin && !strings.HasPrefix(l.key, proxyKey)
	d.within(l.key, func() {
		switch {
		case len(c.AllowClients) > 0:
			if isAdmin && c.Auth == nil {
				d.warn(l.node, "without listen.auth this port serves other machines only metrics and health")
			}
		case d.doubts["listen"] || d.doubts["listen.allow_clients"]:
		case isReverse:
			d.complain(l.node, "list the networks of its clients in listen.allow_clients, or listen on 127.0.0.1",
				"%s can be reached from other machines, and listen.allow_clients names none", l.shown)
		case c.Auth == nil && !d.doubts["listen.auth"]:
			d.complain(l.node, "list the networks of its clients in listen.allow_clients, set listen.auth, or listen on 127.0.0.1",
				"%s can be reached from other machines, and nothing says who may use it", l.shown)
		}
	})
}
