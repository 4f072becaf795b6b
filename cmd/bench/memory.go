package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// footprint is what memory a proxy used.
type footprint struct {
	name     string
	pair     int64 // bytes of resident memory for an idle client connection and its upstream connection
	download body  // a large response
	upload   body  // a large request
}

// body is what a large body did.
type body struct {
	peak int64 // the proxy's largest resident memory, in bytes
	took time.Duration
}

// memory measures the memory of each proxy, each time in a fresh process, and
// prints a table.
func memory(ctx context.Context, o options, makers []maker, out io.Writer) error {
	if o.idle == 0 && o.body == 0 {
		return nil
	}
	var all []footprint
	for _, maker := range makers {
		f := footprint{name: maker.name}
		for _, step := range []struct {
			wanted  bool
			measure func(*proxy) error
		}{
			{o.idle > 0, func(p *proxy) (err error) { f.pair, err = idlePair(ctx, p, o); return err }},
			{o.body > 0, func(p *proxy) (err error) { f.download, err = download(ctx, p, o.body); return err }},
			{o.body > 0, func(p *proxy) (err error) { f.upload, err = upload(ctx, p, o.body); return err }},
		} {
			if !step.wanted {
				continue
			}
			if err := fresh(ctx, maker, step.measure); err != nil {
				return fmt.Errorf("%s: %w", maker.name, err)
			}
		}
		all = append(all, f)
	}
	return printMemory(out, o, all)
}

// fresh measures a proxy that has done nothing yet.
func fresh(ctx context.Context, maker maker, measure func(*proxy) error) error {
	p, err := maker.start(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	return measure(p)
}

// idlePair opens client connections whose requests are all at the upstream at
// once, so that there are as many upstream connections, and returns by how much
// the proxy's resident memory grew for each once they are idle.
func idlePair(ctx context.Context, p *proxy, o options) (int64, error) {
	first, err := together(ctx, p.address, 1) // what the proxy needs at all
	if err != nil {
		return 0, err
	}
	defer closeAll(first)
	before, err := p.memory(resident)
	if err != nil {
		return 0, err
	}
	conns, err := together(ctx, p.address, o.idle)
	if err != nil {
		return 0, err
	}
	defer closeAll(conns)
	select {
	case <-time.After(o.settle):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	after, err := p.memory(resident)
	return (after - before) / int64(o.idle), err
}

// together opens n connections, sends a request on each, and reads all
// responses, which the upstream holds back until it has all requests. The
// connections are returned open.
func together(ctx context.Context, address string, n int) (conns []net.Conn, err error) {
	defer func() {
		if err != nil {
			closeAll(conns)
		}
	}()
	for range n {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
		if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return conns, err
		}
		if _, err := fmt.Fprintf(conn, "GET %s%d HTTP/1.1\r\nHost: bench\r\n\r\n", gatherPath, n); err != nil {
			return conns, err
		}
	}
	for _, conn := range conns {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return conns, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return conns, err
		}
		if resp.StatusCode != http.StatusOK || resp.Close {
			return conns, fmt.Errorf("status %d, connection closed %v", resp.StatusCode, resp.Close)
		}
	}
	return conns, nil
}

// closeAll closes connections.
func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		conn.Close()
	}
}

// download fetches n bytes through the proxy.
func download(ctx context.Context, p *proxy, n int64) (body, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s%s%d", p.address, bytesPath, n), nil)
	if err != nil {
		return body{}, err
	}
	return transfer(p, req, n)
}

// upload sends n bytes through the proxy.
func upload(ctx context.Context, p *proxy, n int64) (body, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.address+sinkPath, io.LimitReader(endless{}, n))
	if err != nil {
		return body{}, err
	}
	req.ContentLength = n
	return transfer(p, req, int64(len("ok")))
}

// transfer does the request and checks that want bytes come back.
func transfer(p *proxy, req *http.Request, want int64) (body, error) {
	transport := &http.Transport{} // none of the environment's proxies
	defer transport.CloseIdleConnections()
	began := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return body{}, err
	}
	defer resp.Body.Close()
	got, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		return body{}, err
	}
	if resp.StatusCode != http.StatusOK || got != want {
		return body{}, fmt.Errorf("status %d with %d bytes, want %d", resp.StatusCode, got, want)
	}
	took := time.Since(began)
	peak, err := p.memory(peakResident)
	return body{peak: peak, took: took}, err
}

// endless reads as the same letter for ever.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) {
	return copy(p, filler), nil
}

// filler is what an endless body is made of.
var filler = strings.Repeat("x", 64<<10)
