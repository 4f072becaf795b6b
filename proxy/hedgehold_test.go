package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// TestHedgeOutlastsHeldResponse: a response that is held does not go out as it comes
// for being past timeout.attempt while there are hedges: one of them may have a whole
// one.
func TestHedgeOutlastsHeldResponse(t *testing.T) {
	const half = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal"
	for name, test := range map[string]struct {
		rest   string
		hedge  string
		takes  time.Duration // the hedge, which begins at 300 ms
		body   string
		answer time.Duration
	}{
		"the hedge has a whole one":   {strings.Repeat(aSecond, 9), ok, 1100 * time.Millisecond, "ok", 1400 * time.Millisecond},
		"the hedge fails":             {strings.Repeat(aSecond, 9), fiveOhThree, 1100 * time.Millisecond, "ok", 1410 * time.Millisecond},
		"the attempt itself is whole": {aSecond + "ed", fiveOhThree, 9 * time.Second, "haled", 1400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged, after(10*time.Millisecond), func(u *policy.Upstream) { u.Default.Timeout.Attempt = 1200 * time.Millisecond }), func(b *bubble) {
				b.serve("a:80", func(n int, _ *http.Request) string {
					switch n {
					case 1:
						time.Sleep(400 * time.Millisecond)
						return half + test.rest
					case 2:
						time.Sleep(test.takes)
						return test.hedge
					}
					return ok
				})
				began := time.Now()
				got := b.get()
				took := time.Since(began)
				if got.status != 200 || got.body != test.body {
					b.Errorf("%+v", got)
				}
				within(b.T, took, test.answer)
			})
		})
	}
}

// TestHeldHedgeIsCut: the same of a hedge that is left alone: a retry follows where one
// can, and else the response goes out as it comes.
func TestHeldHedgeIsCut(t *testing.T) {
	const half = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal"
	for name, test := range map[string]struct {
		most  int
		stop  string
		body  string
		first time.Duration // until the response's head
	}{
		"a retry follows": {3, "attempts=3; stop=success; received-status=200", "ok", 1310 * time.Millisecond},
		"none may":        {2, "attempts=2; stop=success; received-status=200", "haled", 1300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged, atMost(test.most), after(10*time.Millisecond), func(u *policy.Upstream) { u.Default.Timeout.Attempt = time.Second }), func(b *bubble) {
				a := b.serve("a:80", script(aSecond+fiveOhThree, half+aSecond+aSecond+aSecond+"ed", ok))
				c := b.open()
				defer c.Close()
				began := time.Now()
				resp := b.send(c, getUp)
				took := time.Since(began)
				body, _ := io.ReadAll(resp.Body)
				if stop := strings.TrimPrefix(resp.Header.Get("Proxy-Status"), "mulligan; "); stop != test.stop || string(body) != test.body {
					b.Errorf("%q %q", stop, body)
				}
				within(b.T, took, test.first)
				b.tally(test.most, test.most-1, a)
			})
		})
	}
}

// TestWindowEndsWithHedgesHead: the window never cuts a body, a hedge's neither that is
// held when it ends.
func TestWindowEndsWithHedgesHead(t *testing.T) {
	const get = "GET http://up/ HTTP/1.1\r\nHost: up\r\nMulligan-Policy: total=1\r\n\r\n"
	const half = " \r\nContent-Length: 5\r\n\r\nhal" + aSecond + "ed"
	for name, test := range map[string]struct {
		first, hedge string
		status       int
		stop         string
	}{
		"beside one that hangs":       {"", "HTTP/1.1 200" + half, 200, stopped(2, "success", 200)},
		"after one that failed":       {fiveOhThree, "HTTP/1.1 200" + half, 200, stopped(2, "success", 200)},
		"a failure, after one":        {andBreaks, "HTTP/1.1 503" + half, 503, stopped(2, "window", 503)},
		"a failure, beside one hangs": {"", "HTTP/1.1 503" + half, 503, stopped(2, "window", 503)},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, hedged), func(b *bubble) {
				a := b.serve("a:80", func(n int, _ *http.Request) string {
					time.Sleep(400 * time.Millisecond)
					return []string{test.first, test.hedge}[n-1]
				})
				c := b.open()
				defer c.Close()
				began := time.Now()
				resp := b.send(c, get)
				within(b.T, time.Since(began), time.Second)
				body, _ := io.ReadAll(resp.Body)
				b.want(reply{status: resp.StatusCode, stop: strings.TrimPrefix(resp.Header.Get("Proxy-Status"), "mulligan; ")}, test.status, test.stop)
				if string(body) != "haled" {
					b.Errorf("%q", body)
				}
				b.tally(2, 1, a)
			})
		})
	}
}
