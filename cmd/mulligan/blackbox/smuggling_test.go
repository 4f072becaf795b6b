package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// smuggled is appended to each bad request: it must never be taken for one.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: smuggled.example\r\n\r\n"

// Section 7 and RFC 9112 2.2, 5, 6.1, 6.3, 11.2: ambiguous or malformed requests
// are refused, the connection is closed, and the upstream saw nothing.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	target := u.url("/")
	start := "POST " + target + " HTTP/1.1\r\nHost: " + u.addr + "\r\n"
	for name, row := range map[string]struct {
		bytes    string
		statuses string
	}{
		"bare LF after the request line": {"GET " + target + " HTTP/1.1\nHost: " + u.addr + "\r\n\r\n", "400"},
		"bare LF after a field":          {"GET " + target + " HTTP/1.1\r\nHost: " + u.addr + "\nX: y\r\n\r\n", "400"},
		"bare LF as the empty line":      {"GET " + target + " HTTP/1.1\r\nHost: " + u.addr + "\r\n\n", "400"},
		"bare CR in a value":             {start + "X: a\rb\r\n\r\n", "400"},
		"bare CR before a field":         {start + "\rX: a\r\n\r\n", "400"},
		"bare CR in the target":          {"GET " + target + "\rx HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"CR CR LF":                       {start + "X: a\r\r\n\r\n", "400"},
		"NUL in a value":                 {start + "X: a\x00b\r\n\r\n", "400"},
		"NUL in a name":                  {start + "X\x00: b\r\n\r\n", "400"},
		"NUL in the target":              {"GET " + target + "\x00 HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"obs-fold":                       {start + "X: a\r\n b\r\n\r\n", "400"},
		"obs-fold by tab":                {start + "X: a\r\n\tContent-Length: 5\r\n\r\n", "400"},
		"leading space before a field":   {"POST " + target + " HTTP/1.1\r\n X: y\r\nHost: " + u.addr + "\r\n\r\n", "400"},
		"space before the colon":         {start + "Content-Length : 5\r\n\r\nhello", "400"},
		"tab before the colon":           {start + "X\t: 5\r\n\r\n", "400"},
		"space in a name":                {start + "X Y: 5\r\n\r\n", "400"},
		"empty name":                     {start + ": 5\r\n\r\n", "400"},
		"no colon":                       {start + "JustText\r\n\r\n", "400"},
		"non-ASCII in a name":            {start + "X\xe9: 5\r\n\r\n", "400"},
		"bracket in a name":              {start + "X[1]: 5\r\n\r\n", "400"},

		"TE and CL":                       {start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		"TE and CL 0":                     {start + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", "400"},
		"two lengths":                     {start + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400"},
		"a list of lengths":               {start + "Content-Length: 5, 6\r\n\r\nhello", "400"},
		"signed length":                   {start + "Content-Length: +5\r\n\r\nhello", "400"},
		"negative length":                 {start + "Content-Length: -5\r\n\r\nhello", "400"},
		"hex length":                      {start + "Content-Length: 0x5\r\n\r\nhello", "400"},
		"length with a space in it":       {start + "Content-Length: 5 5\r\n\r\nhello", "400"},
		"empty length":                    {start + "Content-Length: \r\n\r\nhello", "400"},
		"fractional length":               {start + "Content-Length: 5.0\r\n\r\nhello", "400"},
		"length past any integer":         {start + "Content-Length: 99999999999999999999\r\n\r\nhello", "400 413"},
		"xchunked":                        {start + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400 501"},
		"identity":                        {start + "Transfer-Encoding: identity\r\n\r\n", "400 501"},
		"chunked, identity":               {start + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400 501"},
		"identity, chunked":               {start + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", "400 501"},
		"gzip, chunked":                   {start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400 501"},
		"chunked twice":                   {start + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400 501"},
		"chunked on two lines":            {start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 501"},
		"chunked and x on two lines":      {start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", "400 501"},
		"chunked with a parameter":        {start + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", "400 501"},
		"chunked with a control":          {start + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400 501"},
		"quoted chunked":                  {start + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "400 501"},
		"empty TE":                        {start + "Transfer-Encoding: \r\n\r\n", "400 501"},
		"TE in HTTP/1.0":                  {"POST " + target + " HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 501"},
		"no Host":                         {"GET " + target + " HTTP/1.1\r\n\r\n", "400"},
		"two Hosts":                       {"GET " + target + " HTTP/1.1\r\nHost: " + u.addr + "\r\nHost: other\r\n\r\n", "400"},
		"two equal Hosts":                 {"GET " + target + " HTTP/1.1\r\nHost: " + u.addr + "\r\nHost: " + u.addr + "\r\n\r\n", "400"},
		"Host with a space":               {"GET " + target + " HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
		"Host with a slash":               {"GET " + target + " HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"},
		"Host with userinfo":              {"GET " + target + " HTTP/1.1\r\nHost: a@b\r\n\r\n", "400"},
		"Host list":                       {"GET " + target + " HTTP/1.1\r\nHost: a, b\r\n\r\n", "400"},
		"HTTP/0.9":                        {"GET " + target + "\r\n\r\n", "400 505"},
		"HTTP/2.0":                        {"GET " + target + " HTTP/2.0\r\nHost: h\r\n\r\n", "505"},
		"HTTP/3.0":                        {"GET " + target + " HTTP/3.0\r\nHost: h\r\n\r\n", "505"},
		"HTTP/1.10":                       {"GET " + target + " HTTP/1.10\r\nHost: h\r\n\r\n", "400 505"},
		"HTTP/01.1":                       {"GET " + target + " HTTP/01.1\r\nHost: h\r\n\r\n", "400 505"},
		"http/1.1":                        {"GET " + target + " http/1.1\r\nHost: h\r\n\r\n", "400 505"},
		"HTTP/1.1x":                       {"GET " + target + " HTTP/1.1x\r\nHost: h\r\n\r\n", "400 505"},
		"two spaces after the method":     {"GET  " + target + " HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"two spaces after the target":     {"GET " + target + "  HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"space after the version":         {"GET " + target + " HTTP/1.1 \r\nHost: h\r\n\r\n", "400 505"},
		"tab as the separator":            {"GET\t" + target + "\tHTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"space in the target":             {"GET " + target + "a b HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"space before the method":         {" GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"a method that is no token":       {"G@T " + target + " HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"no method":                       {target + " HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		"a TLS hello":                     {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", "400"},
		"CL on CONNECT that hides a body": {"CONNECT " + u.addr + " HTTP/1.1\r\nHost: " + u.addr + "\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "400"},
	} {
		c := dial(t, p.proxy)
		c.send(row.bytes + smuggled)
		r := c.final("GET")
		if r.Status == 0 || !strings.Contains(row.statuses, fmt.Sprint(r.Status)) {
			t.Errorf("%s: status %d, want one of %s", name, r.Status, row.statuses)
		} else {
			r.expectProblem(t, r.Status, "attempts=0; stop=permanent")
			if e := r.proxyStatus(t)["error"]; !strings.HasPrefix(e, "http_request_") {
				t.Errorf("%s: error=%s, want an http_request_*", name, e)
			}
			c.expectEnd()
		}
		c.Close()
		if n := u.count(); n > 0 {
			t.Fatalf("%s: the upstream saw %q", name, u.request(n).Head)
		}
	}
	want(t, "connections to the upstream", u.connections(), 0)
	p.wantMetric(0, "mulligan_requests_total")
}

// Chunked bodies that go wrong: whatever of them arrived, the upstream never
// sees one that looks whole, nor the bytes behind it as a request.
func TestMalformedChunks(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, `defaults: {retry: {`+quick+`}}`)
	for name, body := range map[string]string{
		"size with junk":         "5x\r\nhello\r\n0\r\n\r\n",
		"negative size":          "-5\r\nhello\r\n0\r\n\r\n",
		"signed size":            "+5\r\nhello\r\n0\r\n\r\n",
		"0x size":                "0x5\r\nhello\r\n0\r\n\r\n",
		"empty size":             "\r\nhello\r\n0\r\n\r\n",
		"size past any integer":  "10000000000000005\r\nhello\r\n0\r\n\r\n",
		"many zeros and a bit":   strings.Repeat("0", 40) + "5g\r\nhello\r\n0\r\n\r\n",
		"bare LF after the size": "5\nhello\r\n0\r\n\r\n",
		"bare CR after the size": "5\rhello\r\n0\r\n\r\n",
		"no CRLF after the data": "5\r\nhelloX0\r\n\r\n",
		"LF after the data":      "5\r\nhello\n0\r\n\r\n",
		"data longer than size":  "4\r\nhello\r\n0\r\n\r\n",
		"space before the size":  " 5\r\nhello\r\n0\r\n\r\n",
		"bare LF in extension":   "5;a\nb\r\nhello\r\n0\r\n\r\n",
		"endless extension":      "5;" + strings.Repeat("x", 200_000) + "\r\nhello\r\n0\r\n\r\n",
		"bare LF after last":     "5\r\nhello\r\n0\n\r\n",
		"bare LF ends trailer":   "5\r\nhello\r\n0\r\nX: y\n\r\n",
		"trailer that is none":   "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
		"space before colon":     "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
		"folded trailer":         "5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
		"endless trailer":        "5\r\nhello\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 100) + "\r\n",
	} {
		before := u.count()
		c := dial(t, p.proxy)
		go c.send(head("PUT", u.url("/"), "Transfer-Encoding: chunked") + body + smuggled)
		r := c.final("PUT")
		if r.Status != 400 && r.Status != 413 && r.Status != 431 {
			t.Errorf("%s: status %d, want 400", name, r.Status)
		}
		if r.Status > 0 {
			c.expectEnd()
		}
		c.Close()
		p.wantMetric(0, "mulligan_requests_in_flight")
		for n := before + 1; n <= u.count(); n++ {
			eventually(t, "the upstream to see the end", func() bool { r := u.request(n); return r.Broken != nil || r.Whole })
			if got := u.request(n); got.Whole {
				t.Errorf("%s: the upstream saw a whole body %q", name, got.Body)
			}
			if u.request(n).Target == "/smuggled" {
				t.Fatalf("%s: the upstream saw the smuggled request", name)
			}
		}
	}
}

// What is odd but unambiguous is accepted.
func TestOddButFineRequests(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	start := "POST " + u.url("/") + " HTTP/1.1\r\nHost: " + u.addr + "\r\n"
	for name, row := range map[string]struct{ bytes, body string }{
		"empty line first":        {"\r\n" + start + "Content-Length: 5\r\n\r\nhello", "hello"},
		"no space after colon":    {start + "Content-Length:5\r\n\r\nhello", "hello"},
		"tabs and spaces around":  {start + "Content-Length: \t 5 \t\r\n\r\nhello", "hello"},
		"leading zeros":           {start + "Content-Length: 0005\r\n\r\nhello", "hello"},
		"Chunked":                 {start + "Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello"},
		"upper and lower hex":     {start + "Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"},
		"zeros before the size":   {start + "Transfer-Encoding: chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n", "hello"},
		"chunk extension":         {start + "Transfer-Encoding: chunked\r\n\r\n5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", "hello"},
		"a body that is requests": {start + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(smuggled), smuggled), smuggled},
	} {
		before := u.count()
		r := p.raw(row.bytes)
		want(t, "status of "+name, r.Status, 200)
		if u.count() == before+1 {
			want(t, "body of "+name, u.request(before+1).Body, row.body)
		} else {
			t.Errorf("%s: the upstream saw %d requests", name, u.count()-before)
		}
	}
}
