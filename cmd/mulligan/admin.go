package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics/dashboard"
	"mulligan/policy/config"
	"mulligan/proxy"
)

// admin is the admin port: its listener and the server on it.
type admin struct {
	listener net.Listener
	server   *http.Server
	tls      *tls.Config   // nil: plain. The server's own is not, once it serves
	done     chan struct{} // closed when the server has ended
	log      *slog.Logger
}

// newAdmin binds the admin port. Nothing is served before start.
func newAdmin(cfg *config.Config, registry prometheus.Gatherer, ready func() bool, log *slog.Logger) (*admin, error) {
	ln, err := net.Listen(proxy.Network(cfg.Admin), cfg.Admin)
	if err != nil {
		return nil, bindFailed(err)
	}
	options := dashboard.Options{Registry: registry, Ready: ready, Hosts: cfg.AdminHosts, Loopback: isLoopback(ln.Addr())}
	if a := cfg.Auth; a != nil {
		options.Auth = &dashboard.Credentials{Username: a.Username, Password: a.Password}
	}
	a := &admin{listener: ln, done: make(chan struct{}), log: log}
	options.Certified = a.certified
	a.server = &http.Server{
		Handler:           onlyClients(cfg.AllowClients, dashboard.New(options)),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // clients that break off, mostly
	}
	return a, nil
}

// certified reports whether the certificate that clients are shown now is good for
// the name. A page that points a name of its own here has none.
func (a *admin) certified(name string) bool {
	if a.tls == nil {
		return false
	}
	shown, err := a.tls.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
	return err == nil && shown.Leaf != nil && shown.Leaf.VerifyHostname(name) == nil
}

// secure makes the port speak TLS, before it is started; nil leaves it plain.
func (a *admin) secure(config *tls.Config) { a.tls, a.server.TLSConfig = config, config }

func (a *admin) start() {
	serve := a.server.Serve
	if a.server.TLSConfig != nil {
		serve = func(l net.Listener) error { return a.server.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(a.done)
		if err := serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the admin port ended", slog.Any("error", err))
		}
	}()
}

// stop ends the admin port, started or not: scrapes under way get a moment.
func (a *admin) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		a.server.Close()
	}
	a.listener.Close() // of a server that was never started
}

// onlyClients refuses clients whose address is in none of the networks, where
// there are any.
func onlyClients(allowed []netip.Prefix, next http.Handler) http.Handler {
	if len(allowed) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !inAny(allowed, r.RemoteAddr) {
			http.Error(w, "listen.allow_clients does not name your address.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func inAny(networks []netip.Prefix, remote string) bool {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	addr := ap.Addr().WithZone("").Unmap()
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// isLoopback reports whether only this machine can connect to the address.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
