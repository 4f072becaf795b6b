package dashboard

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say what the admin port shows, and to whom.
type Options struct {
	Registry prometheus.Gatherer // what /metrics shows
	Ready    func() bool         // whether new work is welcome: /readyz
	Auth     *Credentials        // needed beyond metrics and health; nil: none are
	Hosts    []string            // names by which the port may be called, besides localhost and IP literals
	// Certified reports whether the port shows a certificate that is good for a name:
	// it may be called by that, too. nil: for none.
	Certified func(name string) bool
	Loopback  bool // nobody but this machine can connect
}

// New returns the admin port's handler.
func New(o Options) http.Handler {
	var h http.Handler = newPages(o)
	h = admit(o, h)
	h = http.NewCrossOriginProtection().Handler(h)
	h = named(o.Hosts, o.Certified, h)
	return hardened(h)
}

// hardened adds to every answer what keeps a browser from doing more with it
// than show it.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
