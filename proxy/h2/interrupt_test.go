package h2

import (
	"io"
	"testing"

	"golang.org/x/net/http2"

	"mulligan/proxy/h1"
)

// TestInterruptRead: blocked and later reads fail, until that is cleared; the
// stream and its neighbours go on.
func TestInterruptRead(t *testing.T) {
	_, s, r := asked(t)
	got := make(chan error)
	read := func() { _, err := s.ReadResponse("GET"); got <- err }
	go read()
	s.InterruptRead()
	wantError(t, <-got, h1.Interrupted, 0)
	go read()
	wantError(t, <-got, h1.Interrupted, 0)
	if s.Failed() || !s.Finished() {
		t.Error("the request has failed")
	}
	s.ClearInterrupt()
	r.headers(1, false, ":status", "200")
	go read()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	next := func() { _, err := s.NextBody(); got <- err }
	go next()
	s.InterruptRead()
	wantError(t, <-got, h1.Interrupted, 0)
	r.WriteData(1, true, []byte("x"))
	eventually(t, "the end has come", func() bool { s.c.mu.Lock(); defer s.c.unlock(); return s.recvEnd })
	if p, err := s.NextBody(); string(p) != "x" || err != nil {
		t.Errorf("what is there is not given: %q %v", p, err)
	}
	if _, err := s.NextBody(); err != io.EOF {
		t.Error(err)
	}
}

// TestInterruptWrite: a write that waits for a window returns, and has failed for
// good; nothing more of it goes out, and the row of frames stays whole.
func TestInterruptWrite(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(s *ClientStream) error
	}{
		{"body", func(s *ClientStream) error { return s.Body(make([]byte, 100_000)) }},
		{"flush", func(s *ClientStream) error { s.Body(make([]byte, 10_000)); return s.Flush() }},
		{"finish", func(s *ClientStream) error { return s.FinishWith(make([]byte, 100_000), nil) }},
		{"ask", func(s *ClientStream) error {
			_, err := s.FinishAndReadResponse(make([]byte, 100_000), nil, "POST")
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, r := rawServer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
			s := open(t, c)
			s.RequestLine("POST", []byte("/"))
			s.FieldString("Host", "up.test")
			s.EndHead(h1.Chunked, 0)
			got := make(chan error)
			go func() { got <- test.do(s) }()
			want[*http2.DataFrame](r)
			if !s.Writing() || s.Unsent() == 0 {
				t.Error("it is not said to be writing")
			}
			s.InterruptWrite()
			wantError(t, <-got, h1.Interrupted, 0)
			s.ClearInterrupt()
			if !s.Failed() || s.Finished() || s.Writing() || s.Unsent() != 0 {
				t.Error("it has not failed")
			}
			wantError(t, s.Finish(nil), h1.Interrupted, 0)
			r.WriteWindowUpdate(1, 1<<20)
			s.Close()
			if f, ok := r.frame().(*http2.RSTStreamFrame); !ok || f.ErrCode != http2.ErrCodeCancel {
				t.Errorf("%v", f)
			}
			s = open(t, c)
			get(s, "/")
			go s.Flush()
			if f, ok := r.frame().(*http2.HeadersFrame); !ok || f.StreamID != 3 {
				t.Errorf("%v", f)
			}
		})
	}
}

// TestInterruptAsked: who waits for the answer to a request that went out may go
// on after an interruption.
func TestInterruptAsked(t *testing.T) {
	c, r := rawServer(t)
	s := open(t, c)
	get(s, "/")
	got := make(chan error)
	go func() { _, err := s.FinishAndReadResponse(nil, nil, "GET"); got <- err }()
	want[*http2.HeadersFrame](r)
	eventually(t, "the request is out", s.Finished)
	s.Interrupt()
	wantError(t, <-got, h1.Interrupted, 0)
	if s.Failed() || !s.Finished() {
		t.Error("the request has failed")
	}
	s.ClearInterrupt()
	r.headers(1, true, ":status", "200")
	if resp, err := s.ReadResponse("GET"); err != nil || resp.Status != 200 {
		t.Error(err)
	}
}

// TestInterruptedBefore: an interruption that is there already is met by what would
// wait, and by nothing else.
func TestInterruptedBefore(t *testing.T) {
	c, _ := rawServer(t)
	s := open(t, c)
	s.Interrupt()
	get(s, "/")
	if s.Failed() {
		t.Error("composing waits for nobody")
	}
	_, err := s.FinishAndReadResponse(nil, nil, "GET")
	wantError(t, err, h1.Interrupted, 0)
	if s.Written() > 0 && !s.Finished() {
		t.Errorf("%d bytes of the request are out", s.Written())
	}
}

// TestEarlyAnswer: it is returned while the request is still being sent, and the
// caller has its bytes back.
func TestEarlyAnswer(t *testing.T) {
	c, r := rawServer(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
	s := open(t, c)
	s.RequestLine("POST", []byte("/"))
	s.FieldString("Host", "up.test")
	s.EndHead(h1.Chunked, 0)
	body := pattern(40_000)
	got := make(chan error)
	go func() { _, err := s.FinishAndReadResponse(body, nil, "POST"); got <- err }()
	want[*http2.DataFrame](r)
	r.headers(1, false, ":status", "100")
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 0
	}
	r.WriteWindowUpdate(1, 100_000)
	var all []byte
	all = append(all, pattern(1)...)
	for {
		f := want[*http2.DataFrame](r)
		all = append(all, f.Data()...)
		if f.StreamEnded() {
			break
		}
	}
	if string(all) != string(pattern(40_000)) {
		t.Error("the body was changed")
	}
	eventually(t, "it is finished", s.Finished)
}
