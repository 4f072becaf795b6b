package h1

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
)

const typicalRequest = "GET /v1/charges?limit=3 HTTP/1.1\r\nHost: api.payments.example\r\nUser-Agent: python-requests/2.28.1\r\n" +
	"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n"

const typicalHead = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 27 Jul 2026 10:00:00 GMT\r\nContent-Type: application/json\r\n" +
	"Content-Length: 1024\r\nLast-Modified: Mon, 27 Jul 2026 10:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"5f\"\r\nAccept-Ranges: bytes\r\n\r\n"

var typicalResponse = typicalHead + string(bytes.Repeat([]byte("x"), 1024))

// exchange serves one request on s and answers it with a small response.
func exchange(s *ServerConn, body []byte) error {
	req, err := s.ReadRequest()
	if err != nil {
		return err
	}
	if _, ok := s.BufferedBody(); !ok {
		return io.ErrShortBuffer
	}
	s.StatusLineText(1, 200)
	for i := range req.Header {
		if f := &req.Header[i]; f.Known() != NameConnection {
			s.Forward(f)
		}
	}
	s.FieldString("Via", "1.1 mulligan-01234567")
	s.EndHead(Length, int64(len(body)))
	return s.FinishWith(body, nil)
}

// fetch sends one request and reads its response.
func fetch(c *ClientConn) error {
	c.Start()
	c.RequestLineString("GET", "/")
	c.FieldString("Host", "api.payments.example")
	c.EndHead(NoBody, 0)
	resp, err := c.FinishAndReadResponse(nil, nil, "GET")
	if err != nil {
		return err
	}
	if b, ok := c.BufferedBody(); !ok || int64(len(b)) != resp.ContentLength {
		return io.ErrShortBuffer
	}
	return nil
}

// A warm connection reads a request and writes a response without allocating;
// one from the pool sends a request and reads a response without allocating.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates, and empties pools")
	}
	server, peer := loopback(t)
	s := NewServerConn(server, Limits{})
	request, body := []byte(typicalRequest), make([]byte, 1000)
	answer := make([]byte, 8<<10)
	serve := func() {
		peer.Write(request)
		if err := exchange(s, body); err != nil {
			t.Fatal(err)
		}
		peer.Read(answer)
	}
	if n := testing.AllocsPerRun(200, serve); n > 0 {
		t.Errorf("server: %v allocations a request", n)
	}

	upstream, client := loopback(t)
	p := NewPool(func(context.Context) (net.Conn, error) { return client, nil }, PoolConfig{Idle: 1 << 40, Max: 8})
	defer p.Close()
	response := []byte(typicalResponse)
	call := func() {
		c, _, err := p.Get(context.Background, Want{MaxIdle: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		if err := fetch(c); err != nil {
			t.Fatal(err)
		}
		if !c.Reusable() {
			t.Fatal("not reusable")
		}
		p.Put(c)
	}
	go func() { // answers everything
		b := make([]byte, 4<<10)
		for {
			if _, err := upstream.Read(b); err != nil {
				return
			}
			upstream.Write(response)
		}
	}()
	if n := testing.AllocsPerRun(200, call); n > 0 {
		t.Errorf("client: %v allocations a request", n)
	}
}

func BenchmarkParseRequest(b *testing.B) {
	head := []byte(typicalRequest)
	var req Request
	b.SetBytes(int64(len(head)))
	b.ReportAllocs()
	for b.Loop() {
		s := scanner{empty: maxEmptyLines}
		n, err := s.scan(head)
		if err == nil {
			err = parseRequest(&req, head[:n], defaultFields)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseResponse(b *testing.B) {
	head := []byte(typicalHead)
	var resp Response
	b.SetBytes(int64(len(head)))
	b.ReportAllocs()
	for b.Loop() {
		s := scanner{lenient: true}
		n, err := s.scan(head)
		if err == nil {
			err = parseResponse(&resp, head[:n], upstreamFields, "GET")
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkServe is a request and its response over loopback, the other side's
// two system calls included.
func BenchmarkServe(b *testing.B) {
	server, peer := loopback(b)
	s := NewServerConn(server, Limits{})
	request, body := []byte(typicalRequest), make([]byte, 1000)
	answer := make([]byte, 8<<10)
	b.ReportAllocs()
	for b.Loop() {
		peer.Write(request)
		if err := exchange(s, body); err != nil {
			b.Fatal(err)
		}
		peer.Read(answer)
	}
}
