package h1

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"
)

func TestPeerGone(t *testing.T) {
	for name, end := range map[string]func(c *net.TCPConn){
		"half close": func(c *net.TCPConn) { c.CloseWrite() },
		"close":      func(c *net.TCPConn) { c.Close() },
		"reset":      func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		server, client := loopback(t)
		s := NewServerConn(server, Limits{})
		client.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /pipelined"))
		if _, err := s.ReadRequest(); err != nil {
			t.Fatal(err)
		}
		client.Write([]byte("more, unread"))
		if s.PeerGone() {
			t.Error(name + ": gone before")
		}
		end(client.(*net.TCPConn))
		eventually(t, name, s.PeerGone)
	}
	s := NewServerConn(gone{play("")}, Limits{})
	if !s.PeerGone() || serverOf("").PeerGone() {
		t.Error("connections that are no sockets")
	}
}

type gone struct{ *script }

func (gone) PeerGone() bool { return true }

func TestCheck(t *testing.T) {
	server, client := loopback(t)
	c := NewClientConn(client)
	if !c.Check() {
		t.Fatal("a new connection is not fine")
	}
	server.Write([]byte("x"))
	eventually(t, "stray byte", func() bool { return !c.Check() })

	server, client = loopback(t)
	c = NewClientConn(client)
	server.Close()
	eventually(t, "close", func() bool { return !c.Check() })

	_, client = loopback(t)
	c = NewClientConn(client)
	client.Close()
	if c.Check() {
		t.Error("closed by ourselves, and fine")
	}
}

// Check of TLS connections also sees plaintext that was decrypted with the
// record before.
func TestCheckTLS(t *testing.T) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	dial := func() (server *tls.Conn, c *ClientConn) {
		a, b := loopback(t)
		server = tls.Server(a, https.TLS)
		client := tls.Client(b, &tls.Config{InsecureSkipVerify: true})
		shaken := make(chan error)
		go func() { shaken <- server.Handshake() }()
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := <-shaken; err != nil {
			t.Fatal(err)
		}
		c = asked(client, "GET")
		server.Write([]byte("HTTP/1.1 204 No\r\n\r\n")) // with it come the session tickets
		if _, err := c.ReadResponse("GET"); err != nil {
			t.Fatal(err)
		}
		c.Start()
		return server, c
	}
	_, c := dial()
	for range 2 { // looking changes nothing
		if !c.Check() || c.PeerGone() {
			t.Fatal("not fine")
		}
	}
	server, c := dial()
	server.Write([]byte("HTTP/1.1 204 No\r\n\r\nx"))
	c.RequestLineString("GET", "/")
	c.EndHead(NoBody, 0)
	c.Finish(nil)
	p := make([]byte, 10)
	if n, err := c.NetConn().Read(p); n != 10 || err != nil {
		t.Fatal(n, err) // the rest of the record is in the TLS layer
	}
	if c.Check() {
		t.Error("decrypted bytes were not seen")
	}
	server, c = dial()
	server.Close()
	eventually(t, "close", func() bool { return !c.Check() })
	eventually(t, "gone", c.PeerGone)
	c.CloseReset()
}

// hears reports whether something can be read from nc.
func hears(nc net.Conn) bool {
	var q quiet
	q.init(nc)
	return !q.check(nc)
}
