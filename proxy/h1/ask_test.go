package h1

import (
	"io"
	"net"
	"testing"
)

func TestFinishAndReadResponse(t *testing.T) {
	begin := func(in string) *ClientConn {
		c := NewClientConn(play(in))
		c.Start()
		c.RequestLineString("POST", "/")
		c.EndHead(Length, 3)
		return c
	}
	c := begin("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	if resp, err := c.FinishAndReadResponse([]byte("abc"), nil, "POST"); err != nil || resp.Status != 200 || !c.Reusable() {
		t.Error(err)
	}
	c = begin("")
	_, err := c.FinishAndReadResponse([]byte("abcd"), nil, "POST")
	wantKind(t, err, Malformed)
	c = begin("")
	_, err = c.FinishAndReadResponse([]byte("ab"), nil, "POST")
	wantKind(t, err, Broken)
	c = begin("")
	c.Interrupt()
	_, err = c.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, Interrupted)
}

// The same over TCP, where writing and waiting are one step.
func TestAsk(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	begin := func(length int) (net.Conn, *ClientConn) {
		server, client := loopback(t)
		c := NewClientConn(client)
		c.Start()
		c.RequestLineString("POST", "/")
		c.FieldString("Host", "a")
		c.EndHead(Length, int64(length))
		return server, c
	}
	expect := func(c *ClientConn, body []byte) {
		t.Helper()
		resp, err := c.FinishAndReadResponse(body, nil, "POST")
		if err != nil || resp.Status != 200 || c.Written() < int64(len(body)) || !c.Finished() {
			t.Fatal(err)
		}
		if b, ok := c.BufferedBody(); string(b) != "ok" || !ok || !c.Reusable() {
			t.Errorf("%q", b)
		}
	}
	for _, size := range []int{3, 6 << 10, 64 << 20} { // the last does not fit the socket
		server, c := begin(size)
		go func() {
			s := NewServerConn(server, Limits{})
			s.ReadRequest()
			s.Drain(int64(size))
			io.WriteString(server, answer)
		}()
		expect(c, make([]byte, size))
	}

	server, c := begin(3) // a server that speaks first
	io.WriteString(server, answer)
	eventually(t, "answer", func() bool { return !c.Check() })
	expect(c, []byte("abc"))

	for name, end := range map[string]func(net.Conn){
		"close": func(nc net.Conn) { nc.(*net.TCPConn).CloseWrite() },
		"reset": func(nc net.Conn) { nc.Close() }, // with the request unread
	} {
		server, c := begin(3)
		go func() { eventually(t, "request", func() bool { return hears(server) }); end(server) }()
		if _, err := c.FinishAndReadResponse([]byte("abc"), nil, "POST"); KindOf(err) != ResetBeforeHeader {
			t.Errorf("%s: %v", name, err)
		}
	}

	peer, waits := begin(3) // interrupted while it waits: the answer can still be read
	go func() { eventually(t, "request", func() bool { return hears(peer) }); waits.Interrupt() }()
	_, err := waits.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, Interrupted)
	waits.ClearInterrupt()
	io.WriteString(peer, answer)
	if _, err := waits.ReadResponse("POST"); err != nil {
		t.Fatal(err)
	}

	_, c = begin(3) // interrupted before
	c.Interrupt()
	_, err = c.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, Interrupted)
	if c.Written() != 0 {
		t.Error(c.Written())
	}

	_, c = begin(3) // closed under it
	c.Close()
	_, err = c.FinishAndReadResponse([]byte("abc"), nil, "POST")
	wantKind(t, err, NothingWritten)
}
