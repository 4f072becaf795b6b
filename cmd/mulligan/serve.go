package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const serveUsage = `Usage: mulligan serve [--config F]

Runs the proxy until SIGTERM or SIGINT; then it is not ready, after
shutdown_delay accepts nothing new, and lets what is in flight finish for up to
shutdown_grace. A second signal ends it at once. SIGHUP, and a change of the
configuration's files, reload the configuration; a bad one changes nothing, and
one that has become empty is waited for.

` + configUsage

func runServe(t terminal, args []string) error {
	f := newFlags("serve", serveUsage)
	find := configFlag(f, t)
	if _, err := f.parse(t, args, 0); err != nil {
		return err
	}
	src, err := find()
	if err != nil {
		return err
	}
	return serve(t, src)
}

// serve runs the proxy until a signal ends it.
func serve(t terminal, src *source) error {
	// A wish to reload that comes while starting is not lost, nor is it deadly.
	stop, hup := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // whoever read our log is gone: no reason to stop serving
	defer signal.Reset()

	before := lookAt([]string{src.own})
	cfg, err := src.load()
	if err != nil {
		return err
	}
	// Not sooner: reading may wait for ever, on a pipe or a dead network drive, and
	// then a signal has to kill. From here on it ends what was started.
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	log := newQueuedLogger(t.err, cfg.Log)
	defer log.close(logPatience)
	slog.SetDefault(log.Logger) // what a library has to say goes there too
	a, err := newApp(cfg, log, appOptions{})
	if err != nil {
		return err
	}
	for _, warning := range cfg.Warnings {
		log.Warn("configuration", slog.String("warning", warning))
	}
	a.start(src.String())

	r := newReloader(src, before, cfg)
	r.apply, r.note, r.log = a.reload, a.metrics.ConfigReload, log.Logger
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() { defer close(watched); r.run(ctx, hup) }()
	got := <-stop
	cancel()
	return a.end(got, stop, watched)
}

// end drains and stops the app after the first signal; another one from again
// ends it at once. A reload that is under way, which watched tells the end of, is
// waited for first: nothing may change what is being stopped.
func (a *app) end(first os.Signal, again <-chan os.Signal, watched <-chan struct{}) error {
	a.ready.Store(false)
	stopped := make(chan error, 1)
	go func() {
		<-watched
		delay, grace := a.current.ShutdownDelay, a.current.ShutdownGrace
		a.log.Info("draining", slog.String("signal", first.String()), slog.Int("connections", a.proxy.Connections()),
			slog.Duration("shutdown_delay", delay), slog.Duration("shutdown_grace", grace))
		time.Sleep(delay) // serving on: balancers have yet to hear that we are not ready
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		stopped <- a.stop(ctx)
	}()
	select {
	case s := <-again:
		a.log.Warn("a second signal: ending at once", slog.String("signal", s.String()))
		a.proxy.CutOff()
		a.log.close(atOnce)
		return errEnded
	case err := <-stopped:
		if err != nil {
			a.log.Warn("shutdown_grace is over", slog.Any("error", err))
		}
	}
	a.log.Info("stopped")
	return nil
}

// errEnded is the end by a second signal: the rest is left to the end of the
// process.
var errEnded = errors.New("ended by a second signal, before everything in flight was finished")
