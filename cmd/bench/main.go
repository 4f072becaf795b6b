package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// upstreamVerb, as the only argument, makes this program the upstream.
const upstreamVerb = "upstream"

// options are the flags.
type options struct {
	mulligan, haproxy, wrk string        // programs
	duration               time.Duration // of one run of wrk
	rounds                 int
	connections            int           // of wrk
	gomaxprocs             int           // of mulligan; 0: as it finds it
	idle                   int           // idle connections to account for; 0: none
	settle                 time.Duration // how long they are idle before
	body                   int64         // bytes of a large body; 0: none
	limit                  time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its surroundings as arguments; it returns the exit status:
// 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == upstreamVerb {
		return report(stderr, upstreamMain(ctx, stdout))
	}
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // the flag set has said why
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, errors.New("took longer than -limit"))
	defer cancel()
	return report(stderr, bench(ctx, o, stdout))
}

// report prints the error, where there is one, and returns the exit status.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "error:", err)
	return 1
}

// parse reads the flags.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var mebibytes int64
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.mulligan, "mulligan", "bin/mulligan", "mulligan's `binary`")
	flags.StringVar(&o.haproxy, "haproxy", "haproxy", "HAProxy's `binary`")
	flags.StringVar(&o.wrk, "wrk", "wrk", "wrk's `binary`")
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "how long one run takes, in whole seconds")
	flags.IntVar(&o.rounds, "rounds", 5, "runs of each proxy in each case")
	flags.IntVar(&o.connections, "connections", 32, "connections under load")
	flags.IntVar(&o.gomaxprocs, "gomaxprocs", 0, "GOMAXPROCS of mulligan; 0: as it finds it")
	flags.IntVar(&o.idle, "idle", 1000, "idle connections to account for; 0: leave that out")
	flags.DurationVar(&o.settle, "settle", 3*time.Second, "how long connections are idle before they are accounted for, so that a proxy can give buffers back")
	flags.Int64Var(&mebibytes, "body", 400, "MiB of a large body; 0: leave that out")
	flags.DurationVar(&o.limit, "limit", 5*time.Minute, "give up after this long")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.body = mebibytes << 20
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{flags.NArg() > 0, "there are no arguments besides flags"},
		{o.duration < time.Second || o.duration%time.Second != 0, "-duration has to be whole seconds, at least 1s"},
		{o.rounds < 1, "-rounds has to be at least 1"},
		{o.connections < 1, "-connections has to be at least 1"},
		{o.idle < 0 || o.body < 0 || o.gomaxprocs < 0, "a number below 0 makes no sense"},
	} {
		if wrong.is {
			err := errors.New(wrong.what)
			fmt.Fprintln(stderr, "error:", err)
			return o, err
		}
	}
	return o, nil
}

// bench measures and prints everything.
func bench(ctx context.Context, o options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "mulligan-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	up, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer up.stop()
	makers := []maker{haproxyMaker(o, dir, up.address), mulliganMaker(o, dir, up.address)}
	if err := printSetting(ctx, out, o); err != nil {
		return err
	}
	if err := speed(ctx, o, dir, up, makers, out); err != nil {
		return err
	}
	return memory(ctx, o, makers, out)
}
