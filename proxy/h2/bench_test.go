package h2

import (
	"io"
	"net"
	"net/http"
	"testing"

	"mulligan/proxy/h1"
)

const benchBody = "a small body, as an API would answer: {\"ok\":true}"

// BenchmarkRequest is a request and its answer on one connection over loopback,
// both sides ours.
func BenchmarkRequest(b *testing.B) {
	c, _ := pair(b, func(s *ServerStream) {
		s.ReadRequest()
		s.BufferedBody()
		s.StatusLine(1, 200, nil)
		s.FieldString("Content-Type", "application/json")
		s.FieldString("Server", "bench")
		s.EndHead(h1.Length, int64(len(benchBody)))
		s.FinishWith([]byte(benchBody), nil)
	})
	b.ReportAllocs()
	for b.Loop() {
		s := c.Open()
		s.RequestLine("GET", []byte("/some/path"))
		s.FieldString("Host", "up.test")
		s.FieldString("Accept", "application/json")
		s.FieldString("User-Agent", "bench/1.0")
		s.EndHead(h1.NoBody, 0)
		if _, err := s.FinishAndReadResponse(nil, nil, "GET"); err != nil {
			b.Fatal(err)
		}
		if _, err := readAll(s); err != nil {
			b.Fatal(err)
		}
		s.Release()
		s.Close()
	}
}

// BenchmarkRequestGo is the same with the server and the transport of net/http.
func BenchmarkRequestGo(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Server", "bench")
		io.WriteString(w, benchBody)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(ln)
	defer server.Close()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest("GET", "http://"+ln.Addr().String()+"/some/path", nil)
		req.Header.Set("Accept", "application/json")
		req.Header.Set("User-Agent", "bench/1.0")
		resp, err := tr.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// BenchmarkStreams is BenchmarkRequest with many streams at once.
func BenchmarkStreams(b *testing.B) {
	c, _ := pair(b, func(s *ServerStream) { answer(s, 200, benchBody) })
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s := c.Open()
			get(s, "/some/path")
			if _, err := s.FinishAndReadResponse(nil, nil, "GET"); err != nil {
				b.Error(err)
				return
			}
			readAll(s)
			s.Release()
			s.Close()
		}
	})
}

// BenchmarkDownload moves a large body.
func BenchmarkDownload(b *testing.B) {
	const size = 16 << 20
	body := make([]byte, size)
	c, _ := pair(b, func(s *ServerStream) {
		s.StatusLine(1, 200, nil)
		s.EndHead(h1.Length, size)
		s.FinishWith(body, nil)
	})
	b.SetBytes(size)
	for b.Loop() {
		s := c.Open()
		get(s, "/")
		if _, err := s.FinishAndReadResponse(nil, nil, "GET"); err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := s.NextBody(); err != nil {
				break
			}
		}
		s.Close()
	}
}
