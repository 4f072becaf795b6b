package h2

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// netServer is Go's own server, over TLS; dialing it gives an HTTP/2 client.
func netServer(t testing.TB, h http.HandlerFunc) *ClientConn {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	cfg := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	cfg.NextProtos = []string{"h2"}
	nc, err := tls.Dial("tcp", s.Listener.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, nc, ClientConfig{})
}

// netClient is Go's own client of our server.
func netClient(t testing.TB, cfg ServerConfig, handle func(*ServerStream)) (client *http.Client, url string) {
	t.Helper()
	addr := listen(t, cfg, handle)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, "http://" + addr
}

func TestGoServer(t *testing.T) {
	c := netServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Host", r.Host+" "+r.Trailer.Get("X-T"))
		w.WriteHeader(103)
		w.WriteHeader(202)
		w.(http.Flusher).Flush()
		w.Write(body)
		w.Header().Set("X-Sum", fmt.Sprint(len(body)))
	})
	for _, size := range []int{0, 10, 70_000, 2 << 20} {
		body := pattern(size)
		s := open(t, c)
		s.RequestLine("POST", []byte("/"))
		s.FieldString("Host", "up.test")
		s.FieldString("Trailer", "X-T")
		s.EndHead(h1.Chunked, 0)
		done := make(chan error, 1)
		go func() { done <- s.FinishWith(body, h1.Header{h1.NewField([]byte("X-T"), []byte("t"))}) }()
		resp, err := s.ReadResponse("POST")
		if err != nil || resp.Status != 103 {
			t.Fatalf("%+v %v", resp, err)
		}
		if resp, err = s.ReadResponse("POST"); err != nil || resp.Status != 202 || string(resp.Header.Get("x-host")) != "up.test t" {
			t.Fatalf("%+v %v", resp, err)
		}
		got, err := readAll(s)
		if err != nil || got != string(body) || string(resp.Trailer.Get("x-sum")) != fmt.Sprint(size) {
			t.Errorf("%d: %d bytes, %v, trailers %s", size, len(got), err, text(resp.Trailer))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestGoServerResets(t *testing.T) {
	release := make(chan struct{})
	c := netServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/half":
			w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/early":
			w.WriteHeader(413)
			w.Write([]byte("too long"))
		case "/wait":
			<-release
		}
	})
	defer close(release)
	s := open(t, c)
	get(s, "/abort")
	var wire *h1.Error
	if _, err := s.FinishAndReadResponse(nil, nil, "GET"); !errors.As(err, &wire) || wire.Kind != h1.ResetBeforeHeader || wire.Code != uint32(http2.ErrCodeInternal) {
		t.Errorf("abort: %v", err)
	}
	s = open(t, c)
	get(s, "/half")
	if resp, err := s.FinishAndReadResponse(nil, nil, "GET"); err != nil || resp.Status != 200 {
		t.Errorf("half: %v", err)
	}
	if got, err := readAll(s); got != "half" || !errors.As(err, &wire) || wire.Kind != h1.Broken || wire.Code != uint32(http2.ErrCodeInternal) {
		t.Errorf("half: %q %v", got, err)
	}
	s = open(t, c)
	s.RequestLine("POST", []byte("/early"))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.Length, 8<<20)
	done := make(chan error, 1)
	go func() { done <- s.FinishWith(make([]byte, 8<<20), nil) }()
	if resp, err := s.ReadResponse("POST"); err != nil || resp.Status != 413 {
		t.Errorf("early: %v", err)
	}
	if got, err := readAll(s); got != "too long" || err != nil {
		t.Errorf("early: %q %v", got, err)
	}
	if err := <-done; err == nil || !s.Failed() {
		t.Errorf("early: the body is said to be sent, %v", err)
	}
	s = open(t, c)
	get(s, "/wait")
	s.Flush()
	s.Close()
	if _, err := s.ReadResponse("GET"); h1.KindOf(err) != h1.Broken {
		t.Errorf("closed: %v", err)
	}
}

func TestGoClient(t *testing.T) {
	client, url := netClient(t, ServerConfig{}, func(s *ServerStream) {
		req, err := s.ReadRequest()
		if err != nil {
			answer(s, 431, "")
			return
		}
		s.StatusLine(1, 103, nil)
		s.FieldString("X-Early", "1")
		s.EndHead(h1.NoBody, 0)
		body, err := readAll(s)
		if err != nil {
			t.Error(err)
		}
		s.StatusLine(1, 200, nil)
		s.FieldString("Trailer", "X-T")
		s.FieldBytes("X-Agent", req.Header.Get("user-agent"))
		s.EndHead(h1.Chunked, 0)
		s.Body([]byte(body))
		s.Finish(req.Trailer)
	})
	for _, size := range []int{0, 100, 100_000, 2 << 20} {
		body := pattern(size)
		early := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { early++; return nil }})
		req, _ := http.NewRequestWithContext(ctx, "POST", url, struct{ io.Reader }{bytes.NewReader(body)})
		req.Trailer = http.Header{"X-T": {"t"}}
		req.Header.Set("User-Agent", "tester")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, body) || resp.Trailer.Get("X-T") != "t" || resp.Header.Get("X-Agent") != "tester" || early != 1 {
			t.Errorf("%d: %d bytes, %v, %v %v %d", size, len(got), err, resp.Trailer, resp.Header, early)
		}
	}
	req, _ := http.NewRequest("GET", url, nil)
	req.Header.Set("X-Long", strings.Repeat("x", 70<<10))
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if err == nil && resp.StatusCode != 431 { // the client may refuse to send it
		t.Errorf("a long head: %v", resp.Status)
	}
}

func TestGoClientEnds(t *testing.T) {
	client, url := netClient(t, ServerConfig{}, func(s *ServerStream) {
		req, _ := s.ReadRequest()
		s.StatusLine(1, 200, nil)
		_, path, _ := strings.Cut(string(req.Target), "//") // the client's scheme is http
		switch path[strings.IndexByte(path, '/'):] {
		case "/broken":
			s.EndHead(h1.Chunked, 0)
			s.Body([]byte("half"))
			s.Flush()
		case "/early":
			s.EndHead(h1.Length, 2)
			s.FinishWith([]byte("no"), nil)
		case "/head":
			s.FieldString("Content-Length", "12")
			s.EndHead(h1.NoBody, 0)
			s.Finish(nil)
		case "/reset":
			s.CloseWith(uint32(http2.ErrCodeCancel))
		}
	})
	resp, err := client.Get(url + "/broken")
	if err != nil {
		t.Fatal(err)
	}
	var reset http2.StreamError
	if got, err := io.ReadAll(resp.Body); string(got) != "half" || !errors.As(err, &reset) || reset.Code != http2.ErrCodeInternal {
		t.Errorf("broken: %q %v", got, err)
	}
	resp.Body.Close()
	resp, err = client.Post(url+"/early", "x/y", struct{ io.Reader }{bytes.NewReader(make([]byte, 4<<20))})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); string(got) != "no" || err != nil {
		t.Errorf("early: %q %v", got, err)
	}
	resp.Body.Close()
	if resp, err = client.Head(url + "/head"); err != nil || resp.ContentLength != 12 {
		t.Errorf("head: %v %v", resp, err)
	}
	if _, err = client.Get(url + "/reset"); !errors.As(err, &reset) || reset.Code != http2.ErrCodeCancel {
		t.Errorf("reset: %v", err)
	}
}
