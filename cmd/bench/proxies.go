package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// proxy is a running proxy before the upstream.
type proxy struct {
	*process
	address string // takes requests
}

// maker starts a proxy of one kind.
type maker struct {
	name  string
	start func(context.Context) (*proxy, error)
}

// haproxyConfig is HAProxy's, with its port, the upstream's and the most
// connections. It retries what mulligan retries by default, at once and on the
// same server, which is what HAProxy can do.
const haproxyConfig = `global
    nbthread 1
    maxconn %[3]d
defaults
    mode http
    maxconn %[3]d
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    retries 3
    retry-on conn-failure empty-response response-timeout 502 503 504
    option redispatch
    http-reuse always
frontend bench
    bind 127.0.0.1:%[1]d
    default_backend upstream
backend upstream
    server upstream %[2]s pool-purge-delay 60s
`

// mulliganConfig is mulligan's, with the ports of the proxy, of the admin and
// of the upstream's own listener, the upstream's address and the most
// connections. Retries come as soon as they can, as HAProxy's do, and a budget
// that never runs out at a tenth of failures.
const mulliganConfig = `listen: {proxy: "127.0.0.1:%[1]d", admin: "127.0.0.1:%[2]d"}
log: {access: false}
upstreams:
  bench:
    listen: 127.0.0.1:%[3]d
    endpoints: ["http://%[4]s"]
    connections: {idle: 60s, max_per_endpoint: %[5]d}
    retry:
      backoff: {strategy: constant, initial_delay: 1us, max_delay: 1us, jitter: none}
      budget: {ratio: 1, burst: 1000}
`

// maxConnections is more than any part of the benchmark opens.
func maxConnections(o options) int { return max(o.idle, o.connections) + 100 }

// haproxyMaker starts HAProxy.
func haproxyMaker(o options, dir, upstream string) maker {
	return maker{"HAProxy", func(ctx context.Context) (*proxy, error) {
		ports, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		config := fmt.Sprintf(haproxyConfig, ports[0], upstream, maxConnections(o))
		file := filepath.Join(dir, "haproxy.cfg")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, err
		}
		return startProxy(ctx, "HAProxy", ports[0], func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, o.haproxy, "-db", "-f", file)
		})
	}}
}

// mulliganMaker starts mulligan.
func mulliganMaker(o options, dir, upstream string) maker {
	return maker{"mulligan", func(ctx context.Context) (*proxy, error) {
		ports, err := freePorts(3)
		if err != nil {
			return nil, err
		}
		config := fmt.Sprintf(mulliganConfig, ports[0], ports[1], ports[2], upstream, maxConnections(o))
		file := filepath.Join(dir, "mulligan.yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, err
		}
		return startProxy(ctx, "mulligan", ports[2], func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, o.mulligan, "serve", "--config", file)
			if o.gomaxprocs > 0 {
				cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(o.gomaxprocs))
			}
			return cmd
		})
	}}
}

// startProxy starts a proxy and waits until it listens at the port.
func startProxy(ctx context.Context, name string, port int, cmd func(context.Context) *exec.Cmd) (*proxy, error) {
	p, err := start(ctx, name, cmd)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := p.await(ctx, address); err != nil {
		p.stop()
		return nil, err
	}
	return &proxy{p, address}, nil
}

// freePorts returns n different loopback ports that nobody listens on: below the
// range from which the kernel gives ports away, so that nobody gets one before
// the program that it is for listens on it.
func freePorts(n int) (ports []int, err error) {
	const first, count, tries = 10_000, 8_000, 1000
	for range tries {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(count)
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			continue
		}
		defer listener.Close() // all at the end, so that they differ
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("no free port: %w", err)
}
