package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"mulligan/metrics"
	"mulligan/policy/config"
	"mulligan/proxy"
)

// app is a running proxy: the parts and how they begin and end. newApp binds,
// start serves, reload takes another configuration, stop ends it.
type app struct {
	log      *logger
	registry *prometheus.Registry
	metrics  *metrics.Metrics
	admin    *admin
	proxy    *proxy.Server
	started  *config.Config // what the listeners were opened with
	current  *config.Config // what holds now
	secured  secured        // the listeners with TLS
	ready    atomic.Bool    // listening and not draining
}

// appOptions is what an app has that its configuration does not say.
type appOptions struct {
	// signer returns the local CA; nil: the one that data_dir keeps.
	signer     func() (proxy.Signer, error)
	untrusting string // what to do where a client does not trust it; "" for the one of data_dir
}

// newApp makes the parts and binds every listener. On an error none is left
// bound: what was made is undone, last first.
func newApp(cfg *config.Config, log *logger, options appOptions) (_ *app, err error) {
	a := &app{log: log, started: cfg, current: cfg}
	var undo []func()
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	settings, err := newSettings(cfg, cfg)
	if err != nil {
		return nil, err
	}
	a.registry = metrics.NewRegistry()
	a.metrics = metrics.New(a.registry)
	a.metrics.BuildInfo(currentVersion())
	if a.admin, err = newAdmin(cfg, a.registry, a.ready.Load, log.Logger); err != nil {
		return nil, err
	}
	undo = append(undo, a.admin.stop)
	if options.signer == nil {
		options.signer = keptCA(cfg)
	}
	a.proxy, err = proxy.New(proxy.Options{
		Proxy: cfg.Proxy, Metrics: a.metrics, Log: log.Logger, Own: []net.Addr{a.admin.listener.Addr()}, Quiet: giveBack(),
		Signer:      options.signer,
		Untrusting:  options.untrusting,
		ListenerTLS: func(address string) *tls.Config { return a.secured.config(address) },
	}, settings)
	if err != nil {
		return nil, bindFailed(err)
	}
	undo = append(undo, a.proxy.Close)
	if a.secured, err = secure(cfg, log.Logger); err != nil {
		return nil, err
	}
	a.admin.secure(a.secured.config(cfg.Admin))
	return a, nil
}

// start accepts connections, on every listener, and is ready from then on;
// source says in the log where the configuration is from.
func (a *app) start(source string) {
	a.admin.start()
	a.proxy.Start()
	a.ready.Store(true)
	a.log.Info("listening", slog.String("proxy", a.proxyAddr()), slog.String("admin", a.adminAddr()),
		slog.String("config", source), slog.String("version", currentVersion()))
	for _, u := range a.started.Upstreams {
		if u.Listen != "" {
			a.log.Info("listening", slog.String("upstream", u.Name), slog.String("listen", a.proxy.ListenAddr(u.Listen).String()))
		}
	}
}

func (a *app) proxyAddr() string { return a.proxy.Addr().String() }
func (a *app) adminAddr() string { return a.admin.listener.Addr().String() }

// reload takes another configuration, or leaves everything as it is.
func (a *app) reload(cfg *config.Config) error {
	settings, err := newSettings(cfg, a.started)
	if err != nil {
		return err
	}
	if err := a.proxy.Reload(settings); err != nil {
		return err
	}
	a.log.configure(cfg.Log)
	a.current = cfg
	for _, key := range restartNeeded(a.started, cfg) {
		a.log.Warn("a change that needs a restart", slog.String("key", key))
	}
	return nil
}

// stop lets no new work in, lets what is in flight finish until ctx ends, and
// cuts off the rest; then it returns ctx's error. The admin port comes last, so
// that the end can be watched there.
func (a *app) stop(ctx context.Context) error {
	a.ready.Store(false)
	err := a.proxy.Shutdown(ctx)
	a.admin.stop()
	a.secured.close()
	return err
}

// bindFailed says why an address could not be listened to, and what to do.
func bindFailed(err error) error {
	var op *net.OpError
	var cause syscall.Errno
	if !errors.As(err, &op) || !errors.As(err, &cause) || op.Op != "listen" {
		return err
	}
	hint := ""
	switch cause {
	case syscall.EADDRINUSE:
		hint = "another process listens there; end it, or choose another port (port 0 takes any that is free)"
	case syscall.EACCES:
		hint = "ports below 1024 need a privilege; choose a higher one"
	case syscall.EADDRNOTAVAIL:
		hint = "no interface of this machine has the address"
	}
	return failure(err, hint, "cannot listen on %s: %s", op.Addr, cause)
}
