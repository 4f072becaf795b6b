package dashboard

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// named lets only those requests pass that call this port by an IP literal, by
// localhost or by one of hosts, or a name that it has a certificate for; others get
// 421. A web page can point a name of
// its own at this machine's address (DNS rebinding) and then read this port as
// its own origin; it cannot do so with a name that is not its own.
func named(hosts []string, certified func(name string) bool, next http.Handler) http.Handler {
	ours := map[string]bool{"localhost": true}
	for _, host := range hosts {
		ours[hostname(host)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostname(r.Host)
		if _, err := netip.ParseAddr(name); err != nil && !ours[name] && !(certified != nil && certified(name)) {
			http.Error(w, "This port answers to IP addresses, to localhost and to the names in listen.admin_hosts.",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostname returns the name in a Host field's value in the form in which names
// are compared: without port, brackets or final dot, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
