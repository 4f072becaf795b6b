package proxy_test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"mulligan/policy"
	"mulligan/proxy"
)

// streams is an HTTP/2 server in virtual time. It is made of frames: x/net's server
// has channels in a pool that bubbles would share.
type streams struct {
	cert tls.Certificate

	mu    sync.Mutex
	hits  int
	reset int // requests that the proxy gave up
}

// overHTTP2 is paired for one endpoint that speaks HTTP/2.
func overHTTP2(t *testing.T, change ...func(u *policy.Upstream)) (*proxy.Settings, *streams) {
	t.Helper()
	up := httptest.NewTLSServer(nil)
	up.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})
	if err := os.WriteFile(file, root, 0o600); err != nil {
		t.Fatal(err)
	}
	s := paired(1, append(change, func(u *policy.Upstream) {
		u.Endpoints[0] = policy.Endpoint{Scheme: "https", Host: "example.com", Port: 443}
		u.TLS.CAFile = file
	})...)
	return s, &streams{cert: up.TLS.Certificates[0]}
}

// serve answers the n-th request, from 1, with fields and a body, in DATA frames of
// its parts; no fields are no answer until the stream is reset.
func (s *streams) serve(b *bubble, answer func(n int) (fields []string, body []string)) {
	ln, _ := b.net.Listen("", "example.com:443")
	b.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.conn(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{s.cert}, NextProtos: []string{"h2"}}), answer)
		}
	}()
}

func (s *streams) conn(c net.Conn, answer func(n int) (fields []string, body []string)) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(c, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				framer.WritePing(true, f.Data)
			}
		case *http2.RSTStreamFrame:
			s.mu.Lock()
			s.reset++
			s.mu.Unlock()
		case *http2.MetaHeadersFrame:
			s.mu.Lock()
			s.hits++
			n := s.hits
			s.mu.Unlock()
			if fields, body := answer(n); len(fields) > 0 {
				respond(framer, f.StreamID, fields, body)
			}
		}
	}
}

// respond writes an answer: its fields are names and values by turns.
func respond(framer *http2.Framer, id uint32, fields, body []string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: len(body) == 0})
	for i, part := range body {
		framer.WriteData(id, i == len(body)-1, []byte(part))
	}
}

func (s *streams) seen(b *bubble, hits, reset int) {
	b.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hits != hits || s.reset != reset {
		b.Errorf("%d attempts, of which %d were reset; want %d and %d", s.hits, s.reset, hits, reset)
	}
}

// status is an answer of nothing else.
func status(word string) ([]string, []string) { return []string{":status", word}, nil }

// TestHTTP2AndHedge: a race of two streams of one connection: the loser's is reset, and
// the connection goes on.
func TestHTTP2AndHedge(t *testing.T) {
	s, up := overHTTP2(t, hedged, breaking, atOnce(3, 0, 0))
	inPair(t, s, func(b *bubble) {
		up.serve(b, func(n int) ([]string, []string) {
			if n%2 == 1 {
				return nil, nil
			}
			return status("200")
		})
		for range 5 {
			b.want(b.get(), 200, stopped(2, "success", 200))
		}
		up.seen(b, 10, 5)
		b.tally(10, 5)
		if n := b.srv.OpenTo("up"); n != 1 {
			b.Errorf("%d connections", n)
		}
	})
}

// TestHTTP2AndClientGone: who leaves resets its stream, and frees its place.
func TestHTTP2AndClientGone(t *testing.T) {
	s, up := overHTTP2(t, breaking, atOnce(1, 2, 10*time.Second), windowOf(0))
	inPair(t, s, func(b *bubble) {
		up.serve(b, func(n int) ([]string, []string) {
			if n == 1 {
				return nil, nil
			}
			return status("200")
		})
		go b.leaves(getUp, 2*time.Second)
		time.Sleep(time.Second)
		began := time.Now()
		b.want(b.get(), 200, "")
		if took := time.Since(began); took < time.Second || took > 1200*time.Millisecond {
			b.Errorf("took %v", took)
		}
		up.seen(b, 2, 1)
		b.tally(2, 0)
	})
}

// TestHTTP2AndBreaker: answers on one connection count one by one, and an open circuit
// leaves the connection alone.
func TestHTTP2AndBreaker(t *testing.T) {
	s, up := overHTTP2(t, breaking)
	inPair(t, s, func(b *bubble) {
		up.serve(b, func(n int) ([]string, []string) {
			if n <= 2 {
				return status("503")
			}
			return status("200")
		})
		b.want(b.get(), 503, stopped(2, "circuit_open", 503))
		b.want(b.get(), 503, circuitIsOpen)
		time.Sleep(6 * time.Second)
		b.want(b.get(), 200, "")
		up.seen(b, 3, 0)
		b.tally(3, 1)
	})
}

// TestHTTP2AndPause: a hint is the same, whatever brings it.
func TestHTTP2AndPause(t *testing.T) {
	s, up := overHTTP2(t, atOnce(1, 0, 0))
	inPair(t, s, func(b *bubble) {
		up.serve(b, func(n int) ([]string, []string) {
			if n == 1 {
				return []string{":status", "503", "retry-after", "10"}, nil
			}
			return status("200")
		})
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(time.Second)
		b.want(b.get(), 200, "")
		b.want(<-first, 200, stopped(2, "success", 200))
		if took := time.Since(began); took < 10*time.Second || took > 13*time.Second {
			b.Errorf("took %v", took)
		}
		up.seen(b, 3, 0)
		b.tally(3, 1)
	})
}

// TestHTTP2AndWindow: what is cut is a stream.
func TestHTTP2AndWindow(t *testing.T) {
	s, up := overHTTP2(t, windowOf(8*time.Second), breaking)
	inPair(t, s, func(b *bubble) {
		up.serve(b, func(int) ([]string, []string) { return nil, nil })
		b.want(b.get(), 504, "attempts=2; stop=window; error=http_response_timeout")
		b.want(b.get(), 503, circuitIsOpen)
		up.seen(b, 2, 2)
		b.tally(2, 1)
	})
}

// TestHTTP2AndRules: as in TestRulesAndOthers.
func TestHTTP2AndRules(t *testing.T) {
	s, up := overHTTP2(t, withRules, breaking)
	inPair(t, s, func(b *bubble) {
		up.serve(b, func(int) ([]string, []string) {
			return []string{":status", "200", "content-type", "application/json"}, []string{limited[:9], limited[9:]}
		})
		got := b.get()
		b.want(got, 200, stopped(2, "circuit_open", 200))
		if got.body != limited {
			b.Errorf("%q", got.body)
		}
		up.seen(b, 2, 0)
		b.tally(2, 1)
	})
}
