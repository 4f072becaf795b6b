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
