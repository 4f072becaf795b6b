package h1

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestReadRequest(t *testing.T) {
	s := serverOf("POST /a?b HTTP/1.1\r\nHoSt:  x.example:80 \t\r\nX-Empty:\r\nx-obs: \xe9\tz\r\nContent-Length: 3\r\n\r\nabcGET")
	req, err := s.ReadRequest()
	if err != nil {
		t.Fatal(err)
	}
	if req.Method != "POST" || string(req.Target) != "/a?b" || req.Minor != 1 || req.Framing != Length || req.ContentLength != 3 || !req.KeepAlive {
		t.Errorf("%+v", req)
	}
	if got := describe(req.Header); got != "HoSt=x.example:80;X-Empty=;x-obs=\xe9\tz;Content-Length=3;" {
		t.Errorf("%q", got)
	}
	body, ok := s.BufferedBody()
	if !ok || string(body) != "abc" || !s.BodyDone() || string(s.Buffered()) != "GET" {
		t.Errorf("%q %v %q", body, ok, s.Buffered())
	}
}

// head is a request with a Host and the given lines.
func head(lines string) string { return "POST / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n" }

func TestRefusedRequests(t *testing.T) {
	tests := []struct {
		rule   string
		in     string
		status int
	}{
		{"RFC 9112 2.2: bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
		{"RFC 9112 2.2: bare LF after a field", head("A: b\n"), 400},
		{"RFC 9112 2.2: bare LF ends the head", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400},
		{"RFC 9112 2.2: bare CR in a value", head("A: b\rc\r\n"), 400},
		{"RFC 9112 2.2: bare CR before CRLF", head("A: b\r\r\n"), 400},
		{"RFC 9112 2.2: bare CR in a name", head("A\r: b\r\n"), 400},
		{"RFC 9112 2.2: bare CR in the request line", "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 2.2: CR as a line", head("\r\r\n"), 400},
		{"RFC 9112 2.2: white space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
		{"RFC 9112 2.2: more than two empty lines", "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 2.2: bare LF before the request line", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9110 5.5: NUL in a value", head("A: b\x00c\r\n"), 400},
		{"RFC 9110 5.5: control in a value", head("A: b\x1fc\r\n"), 400},
		{"RFC 9110 5.5: DEL in a value", head("A: bbbbbbbbbbbbbbbbbb\x7f\r\n"), 400},
		{"RFC 9110 5.6.2: NUL in a name", head("A\x00: b\r\n"), 400},
		{"RFC 9110 5.6.2: name is no token", head("A(b: c\r\n"), 400},
		{"RFC 9110 5.6.2: obs-text in a name", head("\xc3\xa9: c\r\n"), 400},
		{"RFC 9112 5: empty name", head(": b\r\n"), 400},
		{"RFC 9112 5: no colon", head("Ab\r\n"), 400},
		{"RFC 9112 5.1: space before the colon", head("A : b\r\n"), 400},
		{"RFC 9112 5.1: tab before the colon", head("A\t: b\r\n"), 400},
		{"RFC 9112 5.2: obs-fold", head("A: b\r\n c\r\n"), 400},
		{"RFC 9112 5.2: obs-fold with a tab", head("A: b\r\n\tc: d\r\n"), 400},
		{"RFC 9112 3: two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3: two spaces before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3: space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3: tab", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3: space first", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3: no method", "/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3: no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3: no version (HTTP/0.9)", "GET /\r\n\r\n", 400},
		{"RFC 9112 3: method is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3.2: control in the target", "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3.2: DEL in the target", "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 3.2: fragment in the target", "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 2.3: lower case version", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 2.3: version of two digits", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
		{"RFC 9112 2.3: version without a dot", "GET / HTTP/11\r\nHost: a\r\n\r\n", 400},
		{"RFC 9110 15.6.6: HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
		{"RFC 9110 15.6.6: HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505},
		{"RFC 9113 3.4: the preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"RFC 9112 3.2: no Host", "GET / HTTP/1.1\r\nA: b\r\n\r\n", 400},
		{"RFC 9112 3.2: no field at all", "GET / HTTP/1.1\r\n\r\n", 400},
		{"RFC 9112 3.2: two Hosts", head("Host: a\r\n"), 400},
		{"RFC 9112 3.2: two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHOST: a\r\n\r\n", 400},
		{"RFC 9112 6.1: both length and coding", head("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"RFC 9112 6.1: both, the other way round", head("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), 400},
		{"RFC 9112 6.1: coding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"RFC 9112 6.1: chunked twice", head("Transfer-Encoding: chunked, chunked\r\n"), 400},
		{"RFC 9112 6.1: chunked twice in lines", head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"RFC 9112 6.1: chunked not last", head("Transfer-Encoding: chunked, gzip\r\n"), 400},
		{"RFC 9112 6.1: identity", head("Transfer-Encoding: identity\r\n"), 400},
		{"RFC 9112 6.3: not chunked", head("Transfer-Encoding: gzip\r\n"), 400},
		{"RFC 9112 6.1: another coding", head("Transfer-Encoding: gzip, chunked\r\n"), 501},
		{"RFC 9112 6.1: another coding in a line of its own", head("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), 501},
		{"RFC 9112 6.3: Content-Length differs", head("Content-Length: 3\r\nContent-Length: 4\r\n"), 400},
		{"RFC 9112 6.3: Content-Length differs in a list", head("Content-Length: 3, 4\r\n"), 400},
		{"RFC 9110 8.6: Content-Length list", head("Content-Length: 3, 3\r\n"), 400},
		{"RFC 9112 6.3: Content-Length spelled differently", head("Content-Length: 3\r\nContent-Length: 03\r\n"), 400},
		{"head over the limit", head("A: " + strings.Repeat("b", 64<<10) + "\r\n"), 431},
		{"request line over the limit", "GET /" + strings.Repeat("b", 64<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
		{"head over the limit, not ended", "GET / HTTP/1.1\r\nA: " + strings.Repeat("b", 70<<10), 431},
		{"too many fields", head(strings.Repeat("a:\r\n", 1001)), 431},
	}
	for _, value := range []string{"xchunked", "chunked;q=1", "chunked\x0b", "", ",chunked", "chunked,", "chunked,,chunked", "\"chunked\"", "chunked chunked", "chunked\x00"} {
		tests = append(tests, struct {
			rule, in string
			status   int
		}{"RFC 9112 11.2: odd coding " + fmt.Sprintf("%q", value), head("Transfer-Encoding: " + value + "\r\n"), 400})
	}
	for _, value := range []string{"", "-1", "+1", "0x5", "1a", " 1 2", "1.0", "9223372036854775808", "99999999999999999999999", "\"3\"", ","} {
		tests = append(tests, struct {
			rule, in string
			status   int
		}{"RFC 9110 8.6: invalid length " + value, head("Content-Length: " + value + "\r\n"), 400})
	}
	for _, value := range []string{"a b", "a@b", "a/b", "a:b", "a:80:80", "::1", "[::1", "[::1]x", "[::1]:x", "[]", "[a/b]", "[localhost]", "[127.0.0.1]", "[zz]:1", "[v1.a]", "[fe80::1%]", "[::1%a/b]", "a%", "a%2", "a%zz", "a\\b", "a,b c", "a?b", "a#b", "<a>", "\xe9"} {
		tests = append(tests, struct {
			rule, in string
			status   int
		}{"RFC 9110 7.2: invalid Host " + value, "GET / HTTP/1.1\r\nHost: " + value + "\r\n\r\n", 400})
	}
	for _, test := range tests {
		s := serverOf(test.in)
		_, err := s.ReadRequest()
		var e *Error
		if !errors.As(err, &e) || e.Status != test.status || e.Kind != Malformed && e.Kind != HeadTooLarge {
			t.Errorf("%s: got %v, want %d", test.rule, err, test.status)
		}
		if s.Reusable() {
			t.Errorf("%s: the connection is still reusable", test.rule)
		}
	}
}

func TestAcceptedRequests(t *testing.T) {
	tests := []struct {
		rule  string
		in    string
		check func(*Request) bool
	}{
		{"RFC 9112 2.2: an empty line first", "\r\n" + head(""), func(r *Request) bool { return r.Method == "POST" }},
		{"RFC 9112 2.2: two empty lines first", "\r\n\r\n" + head(""), func(r *Request) bool { return string(r.Target) == "/" }},
		{"RFC 9110 2.5: later minor version", "GET / HTTP/1.9\r\nHost: a\r\n\r\n", func(r *Request) bool { return r.Minor == 1 && r.KeepAlive }},
		{"HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", func(r *Request) bool { return r.Minor == 0 && !r.KeepAlive }},
		{"HTTP/1.0 that persists", "GET / HTTP/1.0\r\nConnection: foo, Keep-Alive\r\n\r\n", func(r *Request) bool { return r.KeepAlive }},
		{"RFC 9112 9.3: close", head("Connection: keep-alive, CLOSE\r\n"), func(r *Request) bool { return !r.KeepAlive }},
		{"unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", func(r *Request) bool { return r.Method == "BREW" }},
		{"methods are case-sensitive", "get / HTTP/1.1\r\nHost: a\r\n\r\n", func(r *Request) bool { return r.Method == "get" }},
		{"CONNECT", "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", func(r *Request) bool { return string(r.Target) == "a.example:443" && r.Framing == NoBody }},
		{"CONNECT of Python: HTTP/1.0 without Host", "CONNECT a:1 HTTP/1.0\r\n\r\n", func(r *Request) bool { return r.Method == "CONNECT" }},
		{"chunked", head("Transfer-Encoding: CHUNKED\r\n"), func(r *Request) bool { return r.Framing == Chunked && r.ContentLength == -1 }},
		{"no body", head(""), func(r *Request) bool { return r.Framing == NoBody && r.ContentLength == 0 }},
		{"empty body", head("Content-Length: 0\r\n"), func(r *Request) bool { return r.Framing == Length && r.ContentLength == 0 }},
		{"RFC 9110 8.6: same length twice", head("Content-Length: 3\r\nContent-Length: 3\r\n"), func(r *Request) bool { return r.ContentLength == 3 }},
		{"longest length", head("Content-Length: 9223372036854775807\r\n"), func(r *Request) bool { return r.ContentLength == 1<<63-1 }},
		{"RFC 9110 10.1.1: expectation", head("Content-Length: 3\r\nExpect: 100-Continue\r\n"), func(r *Request) bool { return r.ExpectContinue }},
		{"expectation without a body", head("Expect: 100-continue\r\n"), func(r *Request) bool { return !r.ExpectContinue }},
		{"expectation in HTTP/1.0", "POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n", func(r *Request) bool { return !r.ExpectContinue }},
		{"another expectation", head("Content-Length: 3\r\nExpect: tea\r\n"), func(r *Request) bool { return !r.ExpectContinue && string(r.Header.Get("expect")) == "tea" }},
		{"RFC 9110 7.8: upgrade", head("Connection: Upgrade\r\nUpgrade: websocket\r\n"), func(r *Request) bool { return r.Upgrade }},
		{"upgrade in HTTP/1.0", "GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", func(r *Request) bool { return !r.Upgrade }},
		{"Upgrade that Connection does not name", head("Upgrade: websocket\r\n"), func(r *Request) bool { return !r.Upgrade }},
		{"value with every allowed byte", head("A: \t!~\x80\xff x\r\n"), func(r *Request) bool { return string(r.Header.Get("A")) == "!~\x80\xff x" }},
		{"a thousand fields", head(strings.Repeat("a:\r\n", 999)), func(r *Request) bool { return r.Header.Count("A") == 999 }},
	}
	for _, host := range []string{"", "a", "A.example:80", "a:", "[::1]", "[::1]:80", "[fe80::1%25eth0]", "1.2.3.4", "a_b.c", "a%2fb", "*.a"} {
		tests = append(tests, struct {
			rule  string
			in    string
			check func(*Request) bool
		}{"Host " + host, "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", func(r *Request) bool { return string(r.Header.Get("host")) == host }})
	}
	for _, test := range tests {
		req, err := serverOf(test.in).ReadRequest()
		if err != nil || !test.check(req) {
			t.Errorf("%s: %v %+v", test.rule, err, req)
		}
	}
}

// What can never become a request is refused without waiting for the rest.
func TestRefusesEarly(t *testing.T) {
	for _, in := range []string{"\x16\x03\x01\x02", "GET /\r\n", "hello world\r\n", "GET / HTTP/3.0\r\nA", "\x00", "GET / HTTP/1.1\n"} {
		nc := play(in)
		nc.end = errors.New("read on")
		_, err := NewServerConn(nc, Limits{}).ReadRequest()
		if KindOf(err) != Malformed {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"G", "GET / HTTP/1.1\r\nH", "\r", "\r\n", "\r\nPOS"} {
		nc := play(in)
		nc.end = io.ErrClosedPipe
		_, err := NewServerConn(nc, Limits{}).ReadRequest()
		if KindOf(err) == Malformed {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestPipelining(t *testing.T) {
	one := "POST /%d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	var in strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&in, one, i)
	}
	s := serverOf(in.String())
	for i := range 1000 {
		req, err := s.ReadRequest()
		if err != nil || string(req.Target) != fmt.Sprintf("/%d", i) {
			t.Fatal(i, err)
		}
		if err := s.Drain(3); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ReadRequest(); err != io.EOF {
		t.Fatal(err)
	}
}

func TestUnreadBodyBlocksNextRequest(t *testing.T) {
	s := serverOf(head("Content-Length: 3\r\n") + "abc" + head(""))
	if _, err := s.ReadRequest(); err != nil {
		t.Fatal(err)
	}
	_, err := s.ReadRequest()
	wantKind(t, err, Malformed)
}
