package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// TestConcurrencyAndClientGone: who leaves the queue, or while its attempt hangs,
// takes nobody's place, and only what was sent is an attempt.
func TestConcurrencyAndClientGone(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 10*time.Second), windowOf(0)), func(b *bubble) {
		a := b.serve("a:80", script("", ok))
		go b.leaves(getUp, 3*time.Second)
		time.Sleep(time.Second)
		go b.leaves(getUp, time.Second) // from the queue
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		b.want(b.get(), 200, "")
		if took := time.Since(began); took < 1500*time.Millisecond || took > 1700*time.Millisecond {
			b.Errorf("its turn came after %v", took)
		}
		time.Sleep(time.Second)
		b.tally(2, 0, a)
		b.expect("mulligan_requests_total", 2, "outcome=client_gone", "upstream=up", "route=default")
		b.expect("mulligan_attempts_total", 1, "result=cancelled", "upstream=up", "route=default")
	})
}

// TestConcurrencyAndWindow: nobody waits past its window, whoever has set it, and the
// end of it in the queue is no timeout of the upstream's.
func TestConcurrencyAndWindow(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 30*time.Second), windowOf(8*time.Second)), func(b *bubble) {
		a := b.serve("a:80", lateBy(10*time.Second, ok))
		first := b.later(postUp)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		second := b.later(b.soon("1.5"))
		third := b.request(b.soon("3"))
		b.want(third, 503, noRoom)
		b.waits(third, 1, 30)
		within(b.T, time.Since(began), 3*time.Second)
		b.want(<-second, 503, noRoom)
		b.want(<-first, 504, "attempts=1; stop=window; error=http_response_timeout")
		b.tally(1, 0, a)
	})
}

// TestConcurrencyAndBudget: a retry that gets no place is not paid for, and its client
// gets the answer before.
func TestConcurrencyAndBudget(t *testing.T) {
	for name, limit := range map[string]func(u *policy.Upstream){
		"queued": atOnce(1, 4, time.Second), "no queue": atOnce(1, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, limit, after(2*time.Second)), func(b *bubble) {
				a := b.serve("a:80", func(n int, _ *http.Request) string {
					if n == 1 {
						return fiveOhThree
					}
					time.Sleep(10 * time.Second)
					return ok
				})
				first := b.later(getUp)
				time.Sleep(time.Second)
				second := b.later(postUp) // takes the place
				time.Sleep(500 * time.Millisecond)
				b.left(pairBudget - 1)
				got := <-first
				b.want(got, 503, stopped(1, "overloaded", 503))
				if got.body != "busy" {
					b.Errorf("%q", got.body)
				}
				b.want(<-second, 200, "")
				b.tally(2, 0, a)
				b.expect("mulligan_retries_denied_total", 1, "stop=overloaded", "upstream=up", "route=default")
			})
		})
	}
}

// TestConcurrencyAndRetriesEnd: a retry that waits for a place ends with its window, and
// with its client; it is not paid for.
func TestConcurrencyAndRetriesEnd(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 30*time.Second), after(2*time.Second), windowOf(6*time.Second)), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			if n <= 2 {
				return fiveOhThree
			}
			time.Sleep(20 * time.Second)
			return ok
		})
		first := b.later(getUp)
		go b.leaves(getUp, 4*time.Second)
		time.Sleep(time.Second)
		third := b.later(postUp)
		time.Sleep(2 * time.Second)
		b.left(pairBudget - 2)
		time.Sleep(1500 * time.Millisecond)
		b.left(pairBudget - 1)
		began := time.Now()
		b.want(<-first, 503, stopped(1, "overloaded", 503))
		within(b.T, time.Since(began), 1500*time.Millisecond)
		b.want(<-third, 504, "attempts=1; stop=window; error=http_response_timeout")
		b.tally(3, 0, a)
	})
}

// TestConcurrencyAndPause: who waits for a hint has no place meanwhile.
func TestConcurrencyAndPause(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 0, 0)), func(b *bubble) {
		a := b.serve("a:80", script(hinted503, ok))
		first := b.later(getUp)
		time.Sleep(time.Second)
		for range 5 {
			b.want(b.get(), 200, "")
		}
		b.want(<-first, 200, stopped(2, "success", 200))
		b.tally(7, 1, a)
	})
}

// TestConcurrencyAndRateLimit: who has a turn and finds no place gives the turn back.
func TestConcurrencyAndRateLimit(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 0, 0), paced(0.1, 2, 0)), func(b *bubble) {
		a := b.serve("a:80", lateBy(2*time.Second, ok))
		first := b.later(getUp)
		time.Sleep(time.Second)
		for range 3 {
			b.want(b.get(), 503, noRoom)
		}
		b.want(<-first, 200, "")
		b.want(b.get(), 200, "")
		b.want(b.get(), 503, noRoom)
		b.tally(2, 0, a)
	})
}

// TestConcurrencyAndLongAnswers: a place is kept until the body has ended.
func TestConcurrencyAndLongAnswers(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 10*time.Second)), func(b *bubble) {
		long := slowAnswer + strings.Repeat("x", 100_000)
		a := b.serve("a:80", script(long, ok))
		first := b.later(getUp)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		b.want(b.get(), 200, "")
		within(b.T, time.Since(began), 2900*time.Millisecond)
		if got := <-first; len(got.body) != 100_002 {
			b.Errorf("%d bytes", len(got.body))
		}
		b.tally(2, 0, a)
	})
}

// TestConcurrencyAndFirstEvent: the place of a stream is kept until it has ended, and
// that of one that begins with an error is not kept for longer than it is held.
func TestConcurrencyAndFirstEvent(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 10*time.Second), firstEvents, after(2*time.Second)), func(b *bubble) {
		a := b.serve("a:80", script(errorEvent, ok, streamOf(started, message, message), ok))
		began := time.Now()
		first := b.later(getUp)
		time.Sleep(time.Second)
		b.want(b.get(), 200, "") // while the first one's retry waits
		within(b.T, time.Since(began), time.Second)
		time.Sleep(1500 * time.Millisecond)
		b.want(b.get(), 200, "")
		within(b.T, time.Since(began), 4*time.Second)
		got := <-first
		b.want(got, 200, stopped(2, "success", 200))
		if got.body != started+message+message {
			b.Errorf("%q", got.body)
		}
		b.tally(4, 1, a)
	})
}

// TestConcurrencyAndTunnels: a tunnel's attempt is its dial, so that one that is open
// has no place; the requests of one that speaks HTTP have one each.
func TestConcurrencyAndTunnels(t *testing.T) {
	inPair(t, paired(0, atOnce(1, 0, 0)), func(b *bubble) {
		up := b.serve("up:80", lateBy(2*time.Second, ok))
		for range 3 {
			c, resp := b.tunnel("up:80")
			defer c.Close()
			if resp.StatusCode != 200 {
				b.Error(resp.Status)
			}
			go io.WriteString(c, "\x16\x03\x01")
		}
		time.Sleep(time.Second)
		c, _ := b.tunnel("up:80")
		defer c.Close()
		first := b.later(getUp)
		time.Sleep(time.Second)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: up\r\n\r\n")
		r := bufio.NewReader(c)
		resp := readResponse(b, r)
		io.Copy(io.Discard, resp.Body)
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 503 || got != "mulligan; "+noRoom {
			b.Errorf("%s %q", resp.Status, got)
		}
		b.want(<-first, 200, "")
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: up\r\n\r\n")
		if resp = readResponse(b, r); resp.StatusCode != 200 {
			b.Errorf("%s %q", resp.Status, resp.Header.Get("Proxy-Status"))
		}
		b.tally(2, 0, up)
	})
}

// TestConcurrencyAndDraining: a first attempt that waits for a place is in flight, and
// is served; a retry is a new one.
func TestConcurrencyAndDraining(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 20*time.Second), after(time.Second)), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			if n == 1 {
				return fiveOhThree
			}
			time.Sleep(5 * time.Second)
			return ok
		})
		retry := b.later(getUp)
		time.Sleep(500 * time.Millisecond)
		first := b.later(getUp)
		time.Sleep(time.Second)
		second := b.later(getUp)
		time.Sleep(time.Second)
		began := time.Now()
		b.left(pairBudget - 1)
		b.drains()
		b.want(<-retry, 503, stopped(1, "draining", 503))
		within(b.T, time.Since(began), 0)
		b.want(<-first, 200, "")
		b.want(<-second, 200, "")
		b.tally(3, 0, a)
	})
}

// TestConcurrencyAndReload: who waits gets a place as soon as a reload makes room, or
// does away with the limit; and is turned away where the queue got shorter.
func TestConcurrencyAndReload(t *testing.T) {
	for name, test := range map[string]struct {
		next func(u *policy.Upstream)
		now  int // of two who wait, who go on at once
	}{
		"one more":   {atOnce(2, 4, 30*time.Second), 1},
		"no limit":   {func(*policy.Upstream) {}, 2},
		"no queue":   {atOnce(1, 0, 30*time.Second), 0},
		"as before":  {atOnce(1, 4, 30*time.Second), 0},
		"short wait": {atOnce(1, 4, time.Millisecond), 0}, // who waits, waits as before
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, atOnce(1, 4, 30*time.Second)), func(b *bubble) {
				a := b.serve("a:80", lateBy(4*time.Second, ok))
				var all []<-chan reply
				for range 3 {
					all = append(all, b.later(getUp))
					time.Sleep(100 * time.Millisecond)
				}
				b.reload(paired(1, test.next))
				if hits, _ := a.seen(); hits != 1+test.now {
					b.Errorf("%d under way, want %d", hits, 1+test.now)
				}
				b.want(<-all[0], 200, "")
				if name == "no queue" {
					b.want(<-all[1], 503, noRoom)
					b.want(<-all[2], 503, noRoom)
					b.tally(1, 0, a)
					return
				}
				b.want(<-all[1], 200, "")
				b.want(<-all[2], 200, "")
				b.tally(3, 0, a)
			})
		})
	}
}

// TestConcurrencyAndRemoval: an upstream that a reload removes serves those who wait.
func TestConcurrencyAndRemoval(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 4, 30*time.Second)), func(b *bubble) {
		a := b.serve("a:80", lateBy(2*time.Second, ok))
		first, second := b.later(getUp), b.later(getUp)
		time.Sleep(time.Second)
		b.reload(settings())
		b.want(<-first, 200, "")
		b.want(<-second, 200, "")
		if hits, _ := a.seen(); hits != 2 {
			b.Errorf("%d attempts", hits)
		}
		b.reload(paired(1)) // whose series are looked for
	})
}

// TestConcurrencyAndPOST: a body waits with its request, whole or not, and one that is
// refused does not cost the answer.
func TestConcurrencyAndPOST(t *testing.T) {
	inPair(t, paired(1, atOnce(1, 1, 10*time.Second)), func(b *bubble) {
		a := b.serve("a:80", lateBy(2*time.Second, ok))
		first := b.later(postUp)
		time.Sleep(100 * time.Millisecond)
		second := b.later(longPost)
		time.Sleep(100 * time.Millisecond)
		c := b.open()
		defer c.Close()
		go io.WriteString(c, longPost)
		resp := readResponse(b, bufio.NewReader(c))
		if got := resp.Header.Get("Proxy-Status"); resp.StatusCode != 503 || got != "mulligan; "+noRoom {
			b.Errorf("%s %q", resp.Status, got)
		}
		b.want(<-first, 200, "")
		b.want(<-second, 200, "")
		b.tally(2, 0, a)
	})
}

// TestConcurrencyAndEndpoints: the limit is the upstream's, not the endpoint's.
func TestConcurrencyAndEndpoints(t *testing.T) {
	inPair(t, paired(2, atOnce(2, 0, 0)), func(b *bubble) {
		a, c := b.serve("a:80", lateBy(2*time.Second, ok)), b.serve("b:80", lateBy(2*time.Second, ok))
		first, second := b.later(getUp), b.later(getUp)
		time.Sleep(time.Second)
		b.want(b.get(), 503, noRoom)
		b.want(<-first, 200, "")
		b.want(<-second, 200, "")
		b.tally(2, 0, a, c)
	})
}

// TestConcurrencyAndRetries: retries leave the last place to first attempts.
func TestConcurrencyAndRetries(t *testing.T) {
	inPair(t, paired(1, atOnce(2, 4, time.Second), after(time.Second), atMost(2)), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			if n <= 2 {
				return fiveOhThree
			}
			time.Sleep(5 * time.Second)
			return ok
		})
		first, second := b.later(getUp), b.later(getUp)
		time.Sleep(1500 * time.Millisecond)
		third := b.later(postUp) // the last place is free for it
		time.Sleep(100 * time.Millisecond)
		if hits, _ := a.seen(); hits != 4 {
			b.Errorf("%d attempts", hits)
		}
		stops := map[string]int{}
		for _, answer := range []<-chan reply{first, second, third} {
			stops[(<-answer).stop]++
		}
		if stops[""] != 1 || stops[stopped(2, "success", 200)] != 1 || stops[stopped(1, "overloaded", 503)] != 1 {
			b.Error(stops)
		}
		b.tally(4, 1, a)
	})
}
