package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// A request head is at most 64 KiB: 431 above, served below.
func TestRequestHeadLimit(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	p.get(u.url("/"), "X-Big: "+strings.Repeat("b", 60_000)).expect(t, 200, "")
	p.get(u.url("/"+strings.Repeat("p", 60_000))).expect(t, 200, "")
	want(t, "bytes of the field at the upstream", len(u.request(1).get("X-Big")), 60_000)
	before := u.count()
	for name, bytes := range map[string]string{
		"one field":    head("GET", u.url("/"), "X-Big: "+strings.Repeat("b", 70_000)),
		"many fields":  head("GET", u.url("/"), strings.TrimSuffix(strings.Repeat("X-Many: abcdefgh\r\n", 5_000), "\r\n")),
		"the target":   head("GET", u.url("/"+strings.Repeat("p", 70_000))),
		"never ending": "GET " + u.url("/") + " HTTP/1.1\r\nX-Big: " + strings.Repeat("b", 300_000),
	} {
		c := dial(t, p.proxy)
		go c.send(bytes)
		r := c.final("GET")
		if r.Status != 431 && (name != "the target" || r.Status != 414) {
			t.Errorf("%s: status %d (%v), want 431", name, r.Status, r.Broken)
			continue
		}
		r.expectProblem(t, r.Status, "attempts=0; stop=permanent")
		c.Close()
	}
	want(t, "requests seen", u.count(), before)
	p.wantMetric(float64(before), "mulligan_requests_total")
}

// Many small fields are fine, and keep their order.
func TestManyFields(t *testing.T) {
	t.Parallel()
	u := answers(t, text(200, ""))
	p := start(t, "")
	var fields []string
	for i := range 900 {
		fields = append(fields, fmt.Sprintf("X-%d: %d", i, i))
	}
	p.get(u.url("/"), fields...).expect(t, 200, "")
	var got []string
	for _, f := range u.request(1).Fields {
		if strings.HasPrefix(f.Name, "X-") {
			got = append(got, f.Name+": "+f.Value)
		}
	}
	want(t, "fields at the upstream", strings.Join(got, "|") == strings.Join(fields, "|"), true)
}

// An answer's head is bounded by its bytes alone: thousands of small fields were
// a protocol_error.
func TestManyFieldsInAResponse(t *testing.T) {
	t.Parallel()
	p := start(t, "")
	for _, n := range []int{12_000, 30_000} {
		u := answers(t, text(200, "ok", strings.TrimSuffix(strings.Repeat("A: b\r\n", n), "\r\n")))
		r := p.get(u.url("/"))
		r.expect(t, 200, "")
		want(t, "fields at the client", len(r.all("A")), n)
		want(t, "body", r.Body, "ok")
	}
}

// The request's trailers have the head's limit, but were answered 400, or as a
// client's leaving, where they were over it.
func TestRequestTrailerLimit(t *testing.T) {
	t.Parallel()
	const first = "1\r\na\r\n"
	last := "0\r\nX-Big: " + strings.Repeat("b", 70_000) + "\r\n\r\n"
	for _, later := range []bool{false, true} {
		t.Run(fmt.Sprint("later ", later), func(t *testing.T) {
			t.Parallel()
			u := answers(t, text(200, ""))
			c := dial(t, start(t, "").proxy)
			c.send(head("PUT", u.url("/"), "Transfer-Encoding: chunked") + first)
			if later {
				eventually(t, "the head at the upstream", func() bool { return u.count() == 1 })
			}
			go c.send(last)
			want(t, "status", c.final("PUT").Status, 431)
		})
	}
}
