package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/policy"
)

// TestEndpointsAndOthers: of two endpoints one answers with 503: whether the other one
// is asked is for the same reasons as ever.
func TestEndpointsAndOthers(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		change  func(u *policy.Upstream)
		stop    string // where the first one was asked
	}{
		"GET":      {getUp, tokens(100), stopped(2, "success", 200)},
		"PUT":      {putUp, tokens(100), stopped(2, "success", 200)},
		"POST":     {postUp, tokens(100), stopped(1, "not_idempotent", 503)},
		"key":      {strings.Replace(postUp, "\r\n\r\n", "\r\nIdempotency-Key: k\r\n\r\n", 1), tokens(100), stopped(2, "success", 200)},
		"too long": {longPut, tokens(100), stopped(1, "body_not_replayable", 503)},
		"nested":   {nestedUp, tokens(100), stopped(1, "nested", 503)},
		"observe":  {getUp, observing, stopped(1, "disabled", 503)},
		"budget":   {getUp, tokens(0), stopped(1, "budget", 503)},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(2, test.change), func(b *bubble) {
				a, c := b.serve("a:80", always(fiveOhThree)), b.serve("b:80", always(ok))
				for asked := 0; asked == 0; {
					got := b.request(test.request)
					if asked, _ = a.seen(); asked > 0 {
						b.want(got, map[bool]int{true: 200, false: 503}[strings.HasSuffix(got.stop, "200")], test.stop)
					} else {
						b.want(got, 200, "")
					}
				}
				attempts := int(counter(b, b.reg, "mulligan_attempts_total", "upstream=up"))
				retries := 0
				if test.stop == stopped(2, "success", 200) {
					retries = 1
				}
				b.counts(attempts, retries, a, c)
			})
		})
	}
}

// TestEndpointsAndConnectFailure: where nothing was sent, anything goes to the other
// endpoint, whole; but what another mulligan retries.
func TestEndpointsAndConnectFailure(t *testing.T) {
	for name, request := range map[string]string{"GET": getUp, "POST": postUp, "too long": longPost} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(2), func(b *bubble) { // nobody is a
				c := b.serve("b:80", func(_ int, req *http.Request) string {
					return ok
				})
				for range 5 {
					if got := b.request(request); got.status != 200 {
						b.Errorf("%+v", got)
					}
				}
				if hits, _ := c.seen(); hits != 5 {
					b.Errorf("%d attempts", hits)
				}
				failed := counter(b, b.reg, "mulligan_attempts_total", "result=connect_failure", "upstream=up")
				b.expect("mulligan_attempts_total", 5+failed, "upstream=up", "route=default")
				b.left(pairBudget - int(failed))
			})
		})
	}
}

// TestEndpointsAndTunnels: a tunnel goes to the host that it names.
func TestEndpointsAndTunnels(t *testing.T) {
	inPair(t, paired(2, breaking, atOnce(4, 0, 0)), func(b *bubble) {
		up, a := b.serve("up:80", always(ok)), b.serve("a:80", always(ok))
		c, _ := b.tunnel("up:80")
		defer c.Close()
		b.send(c, "GET / HTTP/1.1\r\nHost: up\r\n\r\n")
		hits, _ := up.seen()
		if others, _ := a.seen(); hits != 1 || others != 0 {
			b.Errorf("%d and %d", hits, others)
		}
	})
}

// TestEndpointsAndUpgrades: what an upgrade leads to is no attempt under way any more.
func TestEndpointsAndUpgrades(t *testing.T) {
	inPair(t, paired(2, breaking, atOnce(1, 0, 0)), func(b *bubble) {
		a, c := b.serve("a:80", always(switching)), b.serve("b:80", always(switching))
		for range 3 {
			conn := b.open()
			defer conn.Close()
			resp := b.send(conn, strings.Replace(getUp, "\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n", 1))
			if resp.StatusCode != 101 {
				b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
			}
		}
		time.Sleep(time.Second)
		if held := b.srv.Held(); held != "" {
			b.Error(held)
		}
		b.tally(3, 0, a, c)
	})
}

// TestDrainingAndBudget: a retry that the drain ends is not paid for.
func TestDrainingAndBudget(t *testing.T) {
	inPair(t, paired(2, after(4*time.Second), breaking, atOnce(4, 0, 0)), func(b *bubble) {
		a, c := b.serve("a:80", always(fiveOhThree)), b.serve("b:80", always(fiveOhThree))
		first := b.later(getUp)
		time.Sleep(time.Second)
		b.left(pairBudget - 1)
		b.drains()
		b.want(<-first, 503, stopped(1, "draining", 503))
		b.tally(1, 0, a, c)
	})
}

// TestDrainingAndTunnels: the retry of a dial ends, what is open goes on.
func TestDrainingAndTunnels(t *testing.T) {
	inPair(t, paired(0, after(4*time.Second)), func(b *bubble) {
		b.serve("up:80", always(ok))
		c, _ := b.tunnel("up:80")
		b.net.mu.Lock()
		delete(b.net.listeners, "up:80")
		b.net.mu.Unlock()
		waiting := make(chan *http.Response, 1)
		go func() {
			_, resp := b.tunnel("up:80")
			waiting <- resp
		}()
		time.Sleep(time.Second)
		b.drains()
		if got := (<-waiting).Header.Get("Proxy-Status"); !strings.HasPrefix(got, "mulligan; attempts=1; stop=draining; error=") {
			b.Errorf("%q", got)
		}
		if resp := b.send(c, "GET / HTTP/1.1\r\nHost: up\r\n\r\n"); resp.StatusCode != 200 {
			b.Error(resp.Status)
		}
		c.Close()
		b.left(pairBudget)
	})
}

// TestReloadAndRetries: a retry that waits goes where its request began to go, and is
// paid for by the budget that there is then.
func TestReloadAndRetries(t *testing.T) {
	inPair(t, paired(1, after(4*time.Second)), func(b *bubble) {
		a := b.serve("a:80", script(fiveOhThree, ok))
		first := b.later(getUp)
		time.Sleep(time.Second)
		next := paired(1)
		next.Upstreams[0].Endpoints[0].Host = "b"
		b.reload(next)
		b.want(<-first, 200, stopped(2, "success", 200))
		b.tally(2, 1, a)
	})
}

// TestReloadAndBudget: a reload keeps what there is, up to the new most, and a token
// that comes back later is no more than that.
func TestReloadAndBudget(t *testing.T) {
	inPair(t, paired(1, after(4*time.Second)), func(b *bubble) {
		a := b.serve("a:80", script(fiveOhThree, fiveOhThree, ok))
		go b.leaves(getUp, 3*time.Second)
		second := b.later(getUp)
		time.Sleep(time.Second)
		b.left(pairBudget - 2)
		b.reload(paired(1, tokens(2)))
		b.left(2)
		time.Sleep(2500 * time.Millisecond)
		b.left(2)
		b.want(<-second, 200, stopped(2, "success", 200))
		b.counts(3, 1, a)
		b.left(2)
	})
}

// TestReloadAndEndpoints: what one endpoint has under way stays counted there, also
// where it is gone for a while.
func TestReloadAndEndpoints(t *testing.T) {
	inPair(t, paired(2, breaking, atOnce(4, 0, 0)), func(b *bubble) {
		a, c := b.serve("a:80", lateBy(3*time.Second, ok)), b.serve("b:80", lateBy(3*time.Second, ok))
		var all []<-chan reply
		for range 4 {
			all = append(all, b.later(getUp))
			time.Sleep(100 * time.Millisecond)
		}
		b.reload(paired(1, atOnce(4, 0, 0)))
		b.reload(paired(2, breaking, atOnce(4, 0, 0)))
		b.want(b.get(), 503, noRoom) // all four are still under way
		for _, answer := range all {
			b.want(<-answer, 200, "")
		}
		b.tally(4, 0, a, c)
	})
}

// TestClientRetriesAndHedge: both are paid for; what clients send is not refused.
func TestClientRetriesAndHedge(t *testing.T) {
	inPair(t, paired(1, hedged, tokens(2), func(u *policy.Upstream) { u.Default.Retry.CountClientRetries = true }), func(b *bubble) {
		a := b.serve("a:80", lateBy(time.Second, ok))
		again := strings.Replace(getUp, "\r\n\r\n", "\r\nX-Stainless-Retry-Count: 1\r\n\r\n", 1)
		b.want(b.request(again), 200, "")
		b.left(0)
		b.want(b.request(again), 200, "")
		b.counts(3, 1, a)
		b.expect("mulligan_client_retries_total", 2, "upstream=up")
	})
}

// attempts keeps a field of each request.
type attempts struct {
	mu  sync.Mutex
	all []string
}

func (s *attempts) note(req *http.Request, field string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, req.Header.Get(field))
}

// TestAttemptHeaderAndHedge: each attempt has its own number.
func TestAttemptHeaderAndHedge(t *testing.T) {
	inPair(t, paired(2, hedged, func(u *policy.Upstream) { u.Default.AttemptHeader = "X-Attempt" }), func(b *bubble) {
		var seen attempts
		answer := func(_ int, req *http.Request) string {
			seen.note(req, "X-Attempt")
			time.Sleep(time.Second)
			return fiveOhThree
		}
		a, c := b.serve("a:80", answer), b.serve("b:80", answer)
		b.want(b.get(), 503, stopped(4, "max_attempts", 503))
		b.tally(4, 3, a, c)
		if got := strings.Join(seen.all, " "); got != "1 2 3 4" {
			b.Error(got)
		}
	})
}

// TestRemainingHeaderAndConcurrency: what waiting took is not told as left.
func TestRemainingHeaderAndConcurrency(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 10*time.Second), windowOf(8*time.Second), func(u *policy.Upstream) { u.Default.RemainingHeader = "X-Left" }), func(b *bubble) {
		var seen attempts
		a := b.serve("a:80", func(_ int, req *http.Request) string {
			seen.note(req, "X-Left")
			time.Sleep(2 * time.Second)
			return ok
		})
		first, second := b.later(getUp), b.later(getUp)
		b.want(<-first, 200, "")
		b.want(<-second, 200, "")
		b.tally(2, 0, a)
		if got := strings.Join(seen.all, " "); got != "8000 6000" {
			b.Error(got)
		}
	})
}

// TestWildcardAndLimits: each host of a wildcard has limits, a budget and a circuit of
// its own.
func TestWildcardAndLimits(t *testing.T) {
	s := paired(1, breaking, atOnce(1, 0, 0))
	s.Upstreams[0].Hosts = []policy.HostPattern{{Wildcard: true, Name: "up"}}
	inPair(t, s, func(b *bubble) {
		a := b.serve("a:80", func(_ int, req *http.Request) string {
			if req.URL.Path == "/bad" {
				return fiveOhThree
			}
			time.Sleep(time.Second)
			return ok
		})
		to := func(host, path string) string {
			return "GET http://" + host + ".up" + path + " HTTP/1.1\r\nHost: up\r\n\r\n"
		}
		first := b.later(to("one", "/"))
		time.Sleep(100 * time.Millisecond)
		b.want(b.request(to("one", "/")), 503, noRoom)
		b.want(b.request(to("two", "/")), 200, "")
		b.want(<-first, 200, "")
		b.want(b.request(to("one", "/bad")), 503, stopped(1, "circuit_open", 503))
		b.want(b.request(to("one", "/")), 503, circuitIsOpen)
		b.want(b.request(to("two", "/")), 200, "")
		b.counts(4, 0, a)
	})
}

// TestTunnelsAndRateLimit: a dial takes a turn, and one that gets none was no attempt.
func TestTunnelsAndRateLimit(t *testing.T) {
	inPair(t, paired(0, paced(0.1, 1, 0)), func(b *bubble) {
		up := b.serve("up:80", always(ok))
		c, resp := b.tunnel("up:80")
		defer c.Close()
		if resp.StatusCode != 200 {
			b.Error(resp.Status)
		}
		other, resp := b.tunnel("up:80")
		defer other.Close()
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 503 || got != "mulligan; "+noRoom || resp.Header.Get("Retry-After") != "10" {
			b.Errorf("%s %v", resp.Status, resp.Header)
		}
		b.expect("mulligan_tunnels_total", 1, "result=established", "upstream=up")
		b.expect("mulligan_tunnels_open", 1, "upstream=up")
		c.Close()
		b.tally(0, 0, up)
	})
}

// TestTunnelsAndClientGone: who leaves while its dial waits for a place was no tunnel.
func TestTunnelsAndClientGone(t *testing.T) {
	inPair(t, paired(0, atOnce(1, 4, 10*time.Second)), func(b *bubble) {
		up := b.serve("up:80", lateBy(3*time.Second, ok))
		first := b.later(getUp)
		time.Sleep(time.Second)
		b.leaves("CONNECT up:80 HTTP/1.1\r\nHost: up:80\r\n\r\n", time.Second)
		b.want(<-first, 200, "")
		time.Sleep(time.Second)
		b.tally(1, 0, up)
		if n := counter(b, b.reg, "mulligan_tunnels_total", "upstream=up"); n != 0 {
			b.Errorf("%v tunnels", n)
		}
	})
}

// TestObserveAndBudget: where retries are only counted nothing is paid, and an empty
// budget is told as it would have been.
func TestObserveAndBudget(t *testing.T) {
	for burst, stop := range map[float64]string{0: "budget", pairBudget: "disabled"} {
		inPair(t, paired(1, observing, tokens(burst)), func(b *bubble) {
			a := b.serve("a:80", always(fiveOhThree))
			for range 3 {
				b.want(b.get(), 503, stopped(1, stop, 503))
			}
			b.counts(3, 0, a)
			b.left(int(burst))
		})
	}
}
