package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"mulligan/policy/config"
	"mulligan/proxy"
	"mulligan/proxy/certs"
)

const execUsage = `Usage: mulligan exec [--config F] [--quiet | --verbose] -- COMMAND...

Starts a proxy for COMMAND alone, runs it with all that its HTTP clients need to
go through that proxy, and ends with COMMAND's exit status: 128 and the signal's
number where a signal ended it, 127 where there is no such command, 126 where it
cannot be run. Signals are passed on. What comes in and goes out is COMMAND's own;
mulligan says on standard error where the proxy is, and in the end what it did.

The proxy takes free ports of 127.0.0.1 unless the configuration names some. Of
an upstream with tls.intercept the requests inside TLS are seen, too, and COMMAND
trusts the certificates that this takes: besides those that it trusted before, it
is told of a certificate authority that ends with mulligan, whose key is nowhere
but in its memory, and that can sign nothing but those upstreams' hosts. The
configuration is not read again while COMMAND runs.

Requests of processes that COMMAND leaves behind may finish, for up to the
configuration's shutdown_grace; so may tunnels, until no byte has moved for 2 s.

In COMMAND's environment
  are set      http_proxy, https_proxy (in capitals, too), NODE_USE_ENV_PROXY
  go on        NODE_OPTIONS, JAVA_TOOL_OPTIONS, GIT_CONFIG_COUNT (with http.proxy)
  are not set  no_proxy, NO_PROXY
and where an upstream has tls.intercept
  are set      CURL_CA_BUNDLE, SSL_CERT_FILE, REQUESTS_CA_BUNDLE, GIT_SSL_CAINFO,
               AWS_CA_BUNDLE, CARGO_HTTP_CAINFO, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH,
               NODE_EXTRA_CA_CERTS, DENO_CERT, WGETRC: each names a file with what
               it named before, or the system's certificates, and one more
  goes on      PHP_INI_SCAN_DIR
  changed      where they are there already: PIP_CERT, npm_config_cafile, NIX_SSL_CERT_FILE,
               HTTPLIB2_CA_CERTS, CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE
A file of a program's own (~/.npmrc, ~/.curlrc, ...) may say otherwise, and wins.
Go and Ruby programs call localhost and loopback addresses directly all the same,
and Java programs cannot give the credentials that listen.auth asks for.

  --quiet      nothing on standard error but warnings and errors
  --verbose    the whole log there, as ` + "`log:`" + ` in the configuration has it
` + configUsage

func runExec(t terminal, args []string) error {
	f := newFlags("exec", execUsage)
	find := configFlag(f, t)
	quiet, verbose := f.Bool("quiet", false, ""), f.Bool("verbose", false, "")
	// Not f.parse: what follows the command's name is the command's, flags too.
	if err := f.Parse(args); err != nil {
		return f.explain(t, err)
	}
	switch {
	case f.NArg() == 0:
		return misuse("it comes last: mulligan exec -- curl https://api.example.com/", "exec has no command to run")
	case *quiet && *verbose:
		return misuse("leave one of them out", "--quiet and --verbose contradict each other")
	}
	src, err := find()
	if err != nil {
		return err
	}
	cmd, err := findCommand(f.Args())
	if err != nil {
		return err
	}
	cfg, err := src.load()
	if err != nil {
		return err
	}
	e := newExecution(t, src, cfg, cmd, *verbose)
	e.quiet, e.named = *quiet, f.given("config")
	return e.run()
}

// execution is one run of exec.
type execution struct {
	t       terminal
	source  string
	named   bool // with --config
	cfg     *config.Config
	cmd     *exec.Cmd
	quiet   bool
	log     *logger
	watched *spectator
	ca      *certs.Authority // nil: nothing is intercepted
	app     *app
}

func newExecution(t terminal, src *source, cfg *config.Config, cmd *exec.Cmd, verbose bool) *execution {
	if !cfg.ProxyWritten {
		cfg.Proxy = "127.0.0.1:0"
	}
	if !cfg.AdminWritten {
		cfg.Admin = "127.0.0.1:0"
	}
	e := &execution{t: t, source: src.String(), cfg: cfg, cmd: cmd}
	lines := logLines{access: verbose && cfg.Log.Access, from: slog.LevelWarn}
	if verbose {
		lines.from = slog.LevelDebug // the file's own level holds
	}
	cfg.Log.Access = true // the summary is made of it
	e.log = newQueuedLogger(t.err, cfg.Log)
	e.watched = newSpectator(e.log.Handler(), lines)
	e.log.Logger = slog.New(e.watched)
	return e
}

// run starts the proxy and the command, waits, and takes down what there is.
func (e *execution) run() error {
	defer e.log.close(logPatience)
	if e.cfg.ProxyTLS != nil {
		return failure(nil, "give exec a configuration whose listen.proxy has no tls, or no listen.proxy at all",
			"listen.proxy has tls: few programs can speak TLS to a proxy")
	}
	signals := catchSignals()
	defer signals.release()
	if err := e.makeCA(); err != nil {
		return err
	}
	var err error
	if e.app, err = newApp(e.cfg, e.log, appOptions{signer: e.signer, untrusting: execUntrusting}); err != nil {
		return err
	}
	dir, err := e.furnish()
	defer func() { dir.remove(e.log.Logger) }()
	if err == nil {
		e.app.start(e.source)
		e.greet()
		err = startCommand(e.cmd)
	}
	if err != nil {
		e.drain(signals, 0)
		return err
	}
	state := signals.attend(e.cmd)
	e.drain(signals, e.cfg.ShutdownGrace)
	e.log.close(logPatience) // its lines come before the summary
	e.conclude()
	return ended(state)
}

// makeCA makes a certificate authority for the hosts that are intercepted, where
// there are any.
func (e *execution) makeCA() (err error) {
	var names []string
	for _, u := range e.cfg.Upstreams {
		if !u.TLS.Intercept {
			continue
		}
		for _, h := range u.Hosts {
			h.Port = 0
			names = append(names, strings.Trim(h.String(), "[]"))
		}
	}
	if len(names) > 0 {
		e.ca, err = certs.New(names)
	}
	return err
}

// execUntrusting is what can be done where the command does not trust its CA.
const execUntrusting = "if it does not trust mulligan's CA: it has a setting of its own for that; let it trust the file that SSL_CERT_FILE names in its environment"

func (e *execution) signer() (proxy.Signer, error) { return e.ca, nil }

// furnish writes the command's files and sets its environment. The directory is
// to be removed, on an error as well.
func (e *execution) furnish() (*privateDir, error) {
	for _, warning := range e.cfg.Warnings {
		e.log.Warn("configuration", slog.String("warning", warning))
	}
	dir, err := newPrivateDir()
	if err != nil {
		return nil, err
	}
	env := &environment{vars: os.Environ(), log: e.log.Logger}
	if e.cfg.ParentProxy == "" {
		env.warnOfProxy()
	}
	env.proxyThrough(e.proxyURL())
	if err := env.preloadNode(dir); err != nil {
		return dir, err
	}
	if e.ca != nil {
		err = env.trust(dir, e.ca.RootPEM())
	}
	e.cmd.Env = env.vars
	return dir, err
}

// proxyURL is how the command calls the proxy.
func (e *execution) proxyURL() *url.URL {
	u := &url.URL{Scheme: "http", Host: reachable(e.app.proxyAddr())}
	if a := e.cfg.Auth; a != nil {
		u.User = url.UserPassword(a.Username, a.Password)
	}
	return u
}

// reachable is the address by which a listener of this machine is called from
// here: one that listens everywhere on loopback.
func reachable(listening string) string {
	ap, err := netip.ParseAddrPort(listening)
	if err != nil || !ap.Addr().IsUnspecified() {
		return listening
	}
	loopback := netip.IPv6Loopback()
	if ap.Addr().Is4() {
		loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(loopback, ap.Port()).String()
}

// greet says where the proxy and the dashboard are.
func (e *execution) greet() {
	if e.quiet {
		return
	}
	scheme := "http"
	if e.cfg.AdminTLS != nil {
		scheme = "https"
	}
	e.say("mulligan: proxy http://%s, dashboard %s://%s/", reachable(e.app.proxyAddr()), scheme, reachable(e.app.adminAddr()))
}

// What is told of a drain, and how long tunnels get in which nothing moves.
const (
	drainSilence = time.Second
	tunnelGrace  = 2 * time.Second
)

// attendDrain says that the proxy is still there, if it is, and returns when no
// request has been under way for a while, nor has anything moved in a tunnel, or
// ctx is done.
func (e *execution) attendDrain(ctx context.Context, grace time.Duration) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	last, said := began, e.quiet // when something was under way
	progress := e.app.proxy.TunnelProgress()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			moved := e.app.proxy.TunnelProgress()
			if counts, err := e.app.counts(); err != nil || counts[inFlight] > 0 || moved != progress {
				last, progress = now, moved
			}
			if now.Sub(last) >= tunnelGrace {
				return
			}
			if !said && now.Sub(began) >= drainSilence {
				said = true
				e.say("mulligan: the command has ended; waiting up to %v for requests that it left behind (a signal ends that)", grace)
			}
		}
	}
}

// conclude says what was done for the command.
func (e *execution) conclude() {
	if e.quiet {
		return
	}
	counts, err := e.app.counts()
	if err != nil {
		e.say("mulligan: no counts: %v", err)
		return
	}
	explain := "mulligan explain"
	if e.named {
		explain += " --config " + shellWord(e.source)
	}
	e.say("%s", e.watched.summary(counts, explain))
}

// shellWord writes text so that a shell takes it for one word.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:+,@%", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// say writes lines to standard error. Nobody may be reading there.
func (e *execution) say(format string, args ...any) {
	printed := make(chan struct{})
	go func() { defer close(printed); fmt.Fprintf(e.t.err, format+"\n", args...) }()
	await(printed, logPatience)
}

// drain stops the proxy: what the command left behind, in other processes, may
// finish for so long, or until another signal comes. Idle tunnels are not waited
// for: daemons that a build leaves behind hold theirs for hours.
func (e *execution) drain(signals *signals, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	go func() {
		e.attendDrain(ctx, grace)
		cancel()
	}()
	go func() {
		for {
			select {
			case one := <-signals.caught:
				if wantsEnd(one) {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	_ = e.app.stop(ctx) // what is cut off has no client that we know of
}
