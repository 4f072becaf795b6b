package h1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// requestSeeds are requests on the border of what is accepted.
var requestSeeds = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"\r\nGET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\nGET",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcX",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabcX",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\nX",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"CONNECT a:1 HTTP/1.0\r\n\r\nx",
	"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\nC: d\r\n e\r\n\r\n",
	"PUT /\x80 HTTP/1.2\r\nHost:\r\nPragma: no-cache\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\n\n",
}

var responseSeeds = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcX",
	"HTTP/1.1 200\nContent-Length: 3, 3\n\nabcX",
	"HTTP/1.0 200 OK\r\n\r\nabc",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3 ;x=y\r\nabc\n0\nT: v\r\n\r\nX",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc",
	"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nD : e\r\n\r\n",
	"HTTP/1.0 200 \nContent-Length :0\n\n0000",
	"HTTP/1.1 304 Not\r\nContent-Length: 3\r\n\r\nabc",
	"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}

// message is what a reader made of bytes.
type message struct {
	line   string
	header map[string][]string
	body   string
	whole  bool
	rest   string
	unsure bool // see Response.unsure; ours only
}

// sameFraming fails where two readers understood bytes differently.
func sameFraming(t *testing.T, ours, theirs message) {
	t.Helper()
	if ours.line != theirs.line {
		t.Errorf("first line: ours %q, theirs %q", ours.line, theirs.line)
	}
	for name, values := range ours.header {
		if !slices.Equal(values, theirs.header[name]) {
			t.Errorf("%s: ours %q, theirs %q", name, values, theirs.header[name])
		}
	}
	for name, values := range theirs.header {
		if _, ok := ours.header[name]; !ok {
			t.Errorf("%s: only theirs: %q", name, values)
		}
	}
	switch {
	case ours.whole && theirs.whole:
		if ours.body != theirs.body || ours.rest != theirs.rest {
			t.Errorf("body: ours %q then %q; theirs %q then %q", ours.body, ours.rest, theirs.body, theirs.rest)
		}
	case ours.whole, theirs.whole && !strings.HasPrefix(theirs.body, ours.body):
		t.Errorf("broken body: ours %q (whole: %v), theirs %q (whole: %v)", ours.body, ours.whole, theirs.body, theirs.whole)
	}
}

// fieldsOf makes the header comparable: names in canonical case, white space in
// folded values as one space, without what net/http keeps elsewhere.
func fieldsOf(h Header) map[string][]string {
	m := map[string][]string{}
	for _, f := range h {
		name := http.CanonicalHeaderKey(string(f.Name))
		m[name] = append(m[name], plainSpace(string(f.Value)))
	}
	keptElsewhere(m)
	return m
}

func theirFields(h http.Header) map[string][]string {
	m := map[string][]string{}
	for name, values := range h {
		for _, v := range values {
			name := http.CanonicalHeaderKey(strings.TrimRight(name, " \t"))
			m[name] = append(m[name], plainSpace(v))
		}
	}
	keptElsewhere(m)
	return m
}

func plainSpace(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// keptElsewhere removes what net/http removes, joins or adds. The values are
// sorted, since net/http keeps "A " and "A" apart.
func keptElsewhere(m map[string][]string) {
	for _, values := range m {
		slices.Sort(values)
	}
	for _, name := range []string{"Host", "Transfer-Encoding", "Content-Length", "Trailer", "Connection", "Cache-Control"} {
		delete(m, name)
	}
}

func FuzzRequest(f *testing.F) {
	for _, seed := range requestSeeds {
		f.Add([]byte(seed), []byte{})
		f.Add([]byte(seed), []byte{0})
	}
	f.Fuzz(func(t *testing.T, in, cut []byte) {
		ours, first, err := ourRequest(in, cut)
		whole, _, wholeErr := ourRequest(in, nil)
		if fmt.Sprint(ours) != fmt.Sprint(whole) || (err == nil) != (wholeErr == nil) {
			t.Fatalf("segments change the result: %+v %v, whole %+v %v", ours, err, whole, wholeErr)
		}
		if err != nil {
			return
		}
		for bytes.HasPrefix(in, []byte("\r\n")) {
			in = in[2:]
		}
		br := bufio.NewReader(bytes.NewReader(in))
		req, err := http.ReadRequest(br)
		if err != nil {
			refusedByTheirs(t, err)
			return
		}
		theirs := message{line: req.Method + " " + req.RequestURI, header: theirFields(req.Header)}
		if host := first.Get("Host"); req.URL.Host == "" && string(host) != req.Host {
			t.Errorf("Host: ours %q, theirs %q", host, req.Host)
		}
		theirs.body, theirs.whole = readBody(req.Body)
		rest, _ := io.ReadAll(br)
		theirs.rest = string(rest)
		sameFraming(t, ours, theirs)
	})
}

// refusedByTheirs lets net/http refuse what is only a matter of taste, and not
// of framing.
func refusedByTheirs(t *testing.T, err error) {
	for _, known := range []string{"invalid URI", "parse ", "malformed HTTP request", "invalid method"} {
		if strings.Contains(err.Error(), known) {
			return
		}
	}
	t.Errorf("net/http refuses: %v", err)
}

// ourRequest reads one request that arrives in pieces.
func ourRequest(in, cut []byte) (m message, h Header, err error) {
	s := NewServerConn(&script{in: bytes.Clone(in), cut: cut}, Limits{})
	req, err := s.ReadRequest()
	if err != nil {
		return m, nil, err
	}
	m = message{line: req.Method + " " + string(req.Target), header: fieldsOf(req.Header)}
	m.body, m.whole = readBody(io.NopCloser(readerFunc(s.ReadBody)))
	if m.whole != s.BodyDone() {
		panic("the end of the body is not known")
	}
	if m.whole {
		rest, _ := io.ReadAll(s)
		m.rest = string(rest)
	}
	return m, req.Header, nil
}

func readBody(r io.ReadCloser) (string, bool) {
	if r == nil {
		return "", true
	}
	b, err := io.ReadAll(r)
	return string(b), err == nil
}

func FuzzResponse(f *testing.F) {
	for _, seed := range responseSeeds {
		f.Add([]byte(seed), []byte{}, false)
		f.Add([]byte(seed), []byte{0}, true)
	}
	f.Fuzz(func(t *testing.T, in, cut []byte, isHead bool) {
		method := "GET"
		if isHead {
			method = "HEAD"
		}
		ours, err := ourResponse(in, cut, method)
		whole, wholeErr := ourResponse(in, nil, method)
		if fmt.Sprint(ours) != fmt.Sprint(whole) || (err == nil) != (wholeErr == nil) {
			t.Fatalf("segments change the result: %+v %v, whole %+v %v", ours, err, whole, wholeErr)
		}
		if err != nil {
			return
		}
		br := bufio.NewReader(bytes.NewReader(cleaned(in)))
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			if !ours.unsure { // of a body that there is none of they want to know
				responseRefusedByTheirs(t, err)
			}
			return
		}
		theirs := message{line: fmt.Sprint(resp.StatusCode), header: theirFields(resp.Header)}
		theirs.body, theirs.whole = readBody(resp.Body)
		rest, _ := io.ReadAll(br)
		theirs.rest = string(rest)
		sameFraming(t, ours, theirs)
	})
}

// cleaned is a response as we would send it on, as to white space between names
// and colons (RFC 9112 5.1): net/http keeps it, and so misses those fields.
func cleaned(in []byte) []byte {
	var out []byte
	for first := true; len(in) > 0; first = false {
		line := in
		if end := bytes.IndexByte(in, '\n'); end >= 0 {
			line = in[:end+1]
		}
		in = in[len(line):]
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			return append(append(out, line...), in...)
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && !first && line[0] != ' ' && line[0] != '\t' {
			out = append(append(append(out, bytes.TrimRight(name, " \t")...), ':'), value...)
			continue
		}
		out = append(out, line...)
	}
	return out
}

func responseRefusedByTheirs(t *testing.T, err error) {
	for _, known := range []string{"malformed MIME header", "bad Content-Length", "multiple Content-Length", "malformed HTTP", "unsupported transfer encoding"} {
		if strings.Contains(err.Error(), known) {
			return
		}
	}
	t.Errorf("net/http refuses: %v", err)
}

// ourResponse reads one response that arrives in pieces.
func ourResponse(in, cut []byte, method string) (m message, err error) {
	c := asked(&script{in: bytes.Clone(in), cut: cut}, method)
	resp, err := c.ReadResponse(method)
	if err != nil {
		return m, err
	}
	m = message{line: fmt.Sprint(resp.Status), header: fieldsOf(resp.Header), unsure: resp.unsure}
	if resp.Status < 200 {
		c.body.start(NoBody, 0)
	}
	m.body, m.whole = readBody(io.NopCloser(readerFunc(c.ReadBody)))
	if m.whole {
		rest, _ := io.ReadAll(c)
		m.rest = string(rest)
	}
	return m, nil
}
