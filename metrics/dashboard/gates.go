package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// Credentials are a user name and a password.
type Credentials struct{ Username, Password string }

// match reports whether r carries the credentials (Basic, RFC 7617). Digests
// are compared so that the time does not tell how much of a guess was right,
// nor how long the password is.
func (c *Credentials) match(r *http.Request) bool {
	username, password, ok := r.BasicAuth()
	return ok && same(username, c.Username)&same(password, c.Password) == 1
}

// same returns 1 where a and b are equal, else 0, in a time that depends on
// their lengths only.
func same(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

// public are the paths that whoever can connect may ask for: scrapers and
// probes carry no password.
var public = map[string]bool{"/metrics": true, "/healthz": true, "/readyz": true}

// admit asks for credentials, where there are any, beyond the public paths.
// Without any, a port that other machines can reach has only the public ones.
func admit(o Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case public[r.URL.Path]:
			next.ServeHTTP(w, r)
		case o.Auth == nil && !o.Loopback:
			http.Error(w, "Beyond loopback this port serves more than metrics and health only with listen.auth.",
				http.StatusForbidden)
		case o.Auth != nil && !o.Auth.match(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="mulligan", charset="UTF-8"`)
			http.Error(w, "This page needs the credentials of listen.auth.", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
