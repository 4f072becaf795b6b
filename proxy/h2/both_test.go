package h2

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"mulligan/proxy/h1"
)

func TestRequestAndResponse(t *testing.T) {
	var seen *h1.Request
	c, _ := pair(t, func(s *ServerStream) {
		req, err := s.ReadRequest()
		if err != nil {
			t.Error(err)
		}
		seen = req
		if _, err := s.ReadRequest(); err != io.EOF {
			t.Errorf("a second request: %v", err)
		}
		if p, ok := s.BufferedBody(); !ok || len(p) > 0 || !s.BodyDone() {
			t.Errorf("body %q %v", p, ok)
		}
		s.StatusLine(1, 201, []byte("Made"))
		s.FieldString("X-A", "one\r\ntwo")
		s.FieldString("Connection", "close")
		s.FieldInt("Content-Length", 5)
		s.EndHead(h1.Length, 5)
		if err := s.FinishWith([]byte("hello"), nil); err != nil || !s.Finished() {
			t.Errorf("finish: %v", err)
		}
	})
	s := open(t, c)
	s.RequestLine("GET", []byte("/a?b=c"))
	s.FieldString("Accept", "x")
	s.FieldString("Cookie", "a=1")
	s.FieldString("X-Y", "z")
	s.FieldString("Cookie", "b=2")
	s.FieldString("TE", "trailers")
	s.FieldString("TE", "gzip")
	s.FieldString("Keep-Alive", "timeout=1")
	s.FieldString("Host", "up.test:8443")
	s.EndHead(h1.NoBody, 0)
	resp, err := s.FinishAndReadResponse(nil, nil, "GET")
	if err != nil {
		t.Fatal(err)
	}
	if seen.Method != "GET" || string(seen.Target) != "/a?b=c" || seen.Minor != 1 || !seen.HTTP2 || !seen.KeepAlive || seen.Framing != h1.NoBody || seen.ContentLength != 0 {
		t.Errorf("request %+v", seen)
	}
	if got, want := text(seen.Header), "Host=up.test:8443;accept=x;cookie=a=1; b=2;x-y=z;te=trailers;"; got != want {
		t.Errorf("fields %s, want %s", got, want)
	}
	if resp.Status != 201 || resp.Framing != h1.Length || resp.ContentLength != 5 || resp.Reason != nil || !resp.HTTP2 {
		t.Errorf("response %+v", resp)
	}
	if got, want := text(resp.Header), "x-a=one  two;content-length=5;"; got != want {
		t.Errorf("fields %s, want %s", got, want)
	}
	if got, err := readAll(s); got != "hello" || err != nil {
		t.Errorf("body %q %v", got, err)
	}
	if !s.Finished() || s.Failed() || s.Written() == 0 {
		t.Error("the request was sent, and is not said to be")
	}
}

func TestBodiesAndTrailers(t *testing.T) {
	for _, size := range []int{0, 1, 5000, 16 << 10, 100_000, 3 << 20} {
		for _, framing := range []h1.Framing{h1.Length, h1.Chunked} {
			t.Run(fmt.Sprint(size, framing), func(t *testing.T) {
				t.Parallel()
				body := pattern(size)
				trailer := h1.Header{h1.NewField([]byte("X-Sum"), []byte("7")), h1.NewField([]byte("Content-Length"), []byte("7"))}
				c, _ := pair(t, func(s *ServerStream) {
					req, _ := s.ReadRequest()
					if req.Framing != framing {
						t.Errorf("framing %v", req.Framing)
					}
					s.StatusLine(1, 200, nil)
					s.EndHead(framing, int64(size))
					for {
						p, err := s.NextBody()
						if err == io.EOF {
							break
						}
						if err == nil {
							err = s.Body(p)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
					if err := s.Finish(req.Trailer); err != nil {
						t.Error(err)
					}
				})
				s := open(t, c)
				s.RequestLine("POST", []byte("/"))
				s.FieldString("Host", "up.test")
				s.EndHead(framing, int64(size))
				done := make(chan struct{})
				go func() {
					defer close(done)
					for p := body; len(p) > 0; {
						n := min(len(p), 40_000)
						if err := s.Body(p[:n]); err != nil {
							t.Error(err)
						}
						p = p[n:]
					}
					if err := s.Finish(trailer); err != nil {
						t.Error(err)
					}
				}()
				resp, err := s.ReadResponse("POST")
				if err != nil {
					t.Fatal(err)
				}
				got, err := readAll(s)
				if err != nil || got != string(body) {
					t.Errorf("%d bytes came back, %v", len(got), err)
				}
				if got := text(resp.Trailer); got != "x-sum=7;" {
					t.Errorf("trailers %q", got)
				}
				wait(t, done, "the request")
			})
		}
	}
}

func TestBufferedBody(t *testing.T) {
	for _, size := range []int{3, 3000, 200_000} {
		body := pattern(size)
		c, _ := pair(t, func(s *ServerStream) { answer(s, 200, string(body)) })
		s := open(t, c)
		get(s, "/")
		if _, err := s.FinishAndReadResponse(nil, nil, "GET"); err != nil {
			t.Fatal(err)
		}
		var got []byte
		eventually(t, "the whole body is buffered", func() (ok bool) {
			got, ok = s.BufferedBody()
			return ok
		})
		if string(got) != string(body) || !s.BodyDone() {
			t.Errorf("%d of %d bytes", len(got), size)
		}
		if p, err := s.NextBody(); p != nil || err != io.EOF {
			t.Errorf("after it: %q %v", p, err)
		}
		if string(got) != string(body) {
			t.Error("it did not live")
		}
	}
}

func TestInterim(t *testing.T) {
	c, _ := pair(t, func(s *ServerStream) {
		for range 3 {
			s.StatusLine(1, 103, nil)
			s.FieldString("Link", "</a>")
			s.EndHead(h1.NoBody, 0)
			s.Flush()
		}
		answer(s, 200, "x")
	})
	s := open(t, c)
	get(s, "/")
	if err := s.Flush(); err != nil || !s.Finished() {
		t.Fatal(err)
	}
	for range 3 {
		resp, err := s.ReadResponse("GET")
		if err != nil || resp.Status != 103 || text(resp.Header) != "link=</a>;" {
			t.Fatalf("%+v %v", resp, err)
		}
	}
	if resp, err := s.ReadResponse("GET"); err != nil || resp.Status != 200 {
		t.Fatalf("%+v %v", resp, err)
	}
}

func TestTooManyInterim(t *testing.T) {
	c, _ := pair(t, func(s *ServerStream) {
		for range maxInterim + 1 {
			s.StatusLine(1, 103, nil)
			s.EndHead(h1.NoBody, 0)
		}
		answer(s, 200, "x")
	})
	s := open(t, c)
	get(s, "/")
	s.Flush()
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = s.ReadResponse("GET")
	}
	if h1.KindOf(err) != h1.Malformed || n != maxInterim+1 {
		t.Errorf("after %d: %v", n, err)
	}
}

func TestBodiless(t *testing.T) {
	for _, test := range []struct {
		method string
		status int
		length string
		want   int64
	}{{"HEAD", 200, "17", 17}, {"GET", 204, "", -1}, {"GET", 304, "9", 9}, {"HEAD", 200, "", -1}} {
		c, _ := pair(t, func(s *ServerStream) {
			s.StatusLine(1, test.status, nil)
			if test.length != "" {
				s.FieldString("Content-Length", test.length)
			}
			s.EndHead(h1.NoBody, 0)
			s.Finish(nil)
		})
		s := open(t, c)
		s.RequestLine(test.method, []byte("/"))
		s.FieldString("Host", "up.test")
		s.EndHead(h1.NoBody, 0)
		resp, err := s.FinishAndReadResponse(nil, nil, test.method)
		if err != nil || resp.Framing != h1.NoBody || resp.ContentLength != test.want {
			t.Errorf("%+v: %+v %v", test, resp, err)
			continue
		}
		if p, ok := s.BufferedBody(); !ok || len(p) > 0 {
			t.Errorf("%+v: body %q", test, p)
		}
		if _, err := s.NextBody(); err != io.EOF {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestTrailersOnly: what ends with its head is told on without a length that it did
// not say.
func TestTrailersOnly(t *testing.T) {
	c, _ := pair(t, func(s *ServerStream) {
		s.StatusLine(1, 200, nil)
		s.FieldString("Grpc-Status", "14")
		s.EndHead(h1.Length, 0)
		s.Finish(nil)
	})
	s := open(t, c)
	get(s, "/")
	resp, err := s.FinishAndReadResponse(nil, nil, "GET")
	if err != nil || resp.Framing != h1.Length || resp.ContentLength != 0 || text(resp.Header) != "grpc-status=14;" {
		t.Fatalf("%+v %v", resp, err)
	}
	if p, ok := s.BufferedBody(); !ok || len(p) != 0 || !s.BodyDone() {
		t.Error("not whole with its head")
	}
}

func TestManyStreams(t *testing.T) {
	c, sc := pair(t, echo)
	body := strings.Repeat("x", 30_000)
	var wg sync.WaitGroup
	gate := make(chan struct{}, 90)
	for i := range 500 {
		wg.Add(1)
		gate <- struct{}{}
		go func() {
			defer wg.Done()
			defer func() { <-gate }()
			s := c.Open()
			if s == nil {
				t.Error("no stream")
				return
			}
			defer s.Close()
			s.RequestLine("POST", fmt.Appendf(nil, "/%d", i))
			s.FieldString("Host", "up.test")
			s.FieldString("X-N", fmt.Sprint(i))
			s.EndHead(h1.Chunked, 0)
			if _, err := s.FinishAndReadResponse([]byte(body), nil, "POST"); err != nil {
				t.Error(err)
				return
			}
			if got, err := readAll(s); err != nil || got != fmt.Sprintf("POST /%d %s", i, body) {
				t.Errorf("%d: %d bytes, %v", i, len(got), err)
			}
		}()
	}
	wg.Wait()
	eventually(t, "no streams are left", func() bool { return c.Streams() == 0 && sc.Streams() == 0 })
}
