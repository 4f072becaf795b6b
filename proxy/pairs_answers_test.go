package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

// TestRulesAndOthers: a rule has a response retried only where that may be, and the
// reason why it is not is the same as for any other failure.
func TestRulesAndOthers(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		change  func(u *policy.Upstream)
		stop    string
		retries int
	}{
		"POST":      {postUp, nil, stopped(1, "not_idempotent", 200), 0},
		"too long":  {longPut, nil, stopped(1, "body_not_replayable", 200), 0},
		"observe":   {getUp, observing, stopped(1, "disabled", 200), 0},
		"off":       {getUp, func(u *policy.Upstream) { u.Default.Retry.Mode = policy.ModeOff }, stopped(1, "disabled", 200), 0},
		"nested":    {nestedUp, nil, stopped(1, "nested", 200), 0},
		"window":    {getUp, func(u *policy.Upstream) { after(3 * time.Second)(u); windowOf(2 * time.Second)(u) }, stopped(1, "window", 200), 0},
		"exhausted": {getUp, nil, stopped(4, "max_attempts", 200), 3},
		"endpoints": {getUp, func(u *policy.Upstream) {
			u.Endpoints = append(u.Endpoints, policy.Endpoint{Scheme: "http", Host: "b", Port: 80})
		}, stopped(4, "max_attempts", 200), 3},
		"too long to look at": {getUp, func(u *policy.Upstream) { u.Default.Buffer.Response = 10 }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.change
			if change == nil {
				change = func(*policy.Upstream) {}
			}
			inPair(t, paired(1, withRules, change), func(b *bubble) {
				a, c := b.serve("a:80", always(rateLimited)), b.serve("b:80", always(rateLimited))
				got := b.request(test.request)
				b.want(got, 200, test.stop)
				if got.body != limited {
					b.Errorf("%q", got.body)
				}
				b.tally(1+test.retries, test.retries, a, c)
			})
		})
	}
}

// TestRulesAndBudget: what a rule makes final is an answer that pays in, and what it
// has retried is none, whatever their statuses.
func TestRulesAndBudget(t *testing.T) {
	inPair(t, paired(1, withRules, func(u *policy.Upstream) { u.Budget.Burst, u.Budget.Ratio = 0, 0.5 }), func(b *bubble) {
		a := b.serve("a:80", func(n int, _ *http.Request) string {
			switch {
			case n <= 4:
				return rateLimited
			case n <= 8:
				return withLength(429, spent)
			case n <= 10:
				return rateLimited
			}
			return ok
		})
		for range 4 {
			b.want(b.get(), 200, stopped(1, "budget", 200))
		}
		b.left(0)
		for range 4 {
			b.want(b.get(), 429, stopped(1, "permanent", 429))
		}
		b.left(2)
		b.want(b.get(), 200, stopped(3, "success", 200))
		b.counts(11, 2, a)
		b.left(0)
	})
}

// TestFirstEventAndOthers: so has a stream that begins with an error, which is what
// the client gets where it is not retried.
func TestFirstEventAndOthers(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		change  func(u *policy.Upstream)
		stop    string
		retries int
	}{
		"POST":      {postUp, nil, stopped(1, "not_idempotent", 200), 0},
		"too long":  {longPut, nil, stopped(1, "body_not_replayable", 200), 0},
		"observe":   {getUp, observing, stopped(1, "disabled", 200), 0},
		"nested":    {nestedUp, nil, stopped(1, "nested", 200), 0},
		"budget":    {getUp, tokens(0), stopped(1, "budget", 200), 0},
		"exhausted": {getUp, nil, stopped(4, "max_attempts", 200), 3},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.change
			if change == nil {
				change = func(*policy.Upstream) {}
			}
			inPair(t, paired(1, firstEvents, change), func(b *bubble) {
				a := b.serve("a:80", always(errorEvent))
				got := b.request(test.request)
				b.want(got, 200, test.stop)
				if got.body != overloaded {
					b.Errorf("%q", got.body)
				}
				b.counts(1+test.retries, test.retries, a)
			})
		})
	}
}

// TestFirstEventAndWindow: a stream without an event is given when the window ends,
// and not cut, however late its events come.
func TestFirstEventAndWindow(t *testing.T) {
	inPair(t, paired(1, firstEvents, windowOf(3*time.Second)), func(b *bubble) {
		a := b.serve("a:80", always(streamOf(comment, comment, comment, comment, comment, message)))
		began := time.Now()
		got := b.get()
		b.want(got, 200, "")
		if got.body != strings.Repeat(comment, 5)+message {
			b.Errorf("%q", got.body)
		}
		within(b.T, time.Since(began), 5*time.Second)
		b.tally(1, 0, a)
	})
}

// TestFirstEventAndClientGone: nothing is held of a stream whose client has left.
func TestFirstEventAndClientGone(t *testing.T) {
	inPair(t, paired(2, firstEvents, windowOf(0), atOnce(1, 0, 0)), func(b *bubble) {
		endless := streamOf(comment, comment, comment, comment, comment, comment, comment)
		a, c := b.serve("a:80", always(endless)), b.serve("b:80", always(endless))
		b.leaves(getUp, 2*time.Second)
		time.Sleep(time.Second)
		b.tally(1, 0, a, c)
		b.expect("mulligan_buffered_bytes", 0)
		b.expect("mulligan_attempts_total", 1, "result=cancelled", "route=default", "upstream=up")
		time.Sleep(10 * time.Second)
	})
}

// TestWindowAndOthers: an attempt is cut by timeout.attempt where a retry follows, and
// else ends with the window.
func TestWindowAndOthers(t *testing.T) {
	ends := func(attempts string) string {
		return "attempts=" + attempts + "; stop=window; error=http_response_timeout"
	}
	for name, test := range map[string]struct {
		request  string
		change   func(u *policy.Upstream)
		status   int
		stop     string
		attempts int
		took     time.Duration
	}{
		"GET":            {getUp, nil, 504, ends("2"), 2, 8 * time.Second},
		"POST":           {postUp, nil, 504, ends("1"), 1, 8 * time.Second},
		"too long":       {longPut, nil, 504, ends("1"), 1, 8 * time.Second},
		"nested":         {nestedUp, nil, 504, ends("1"), 1, 8 * time.Second},
		"observe":        {getUp, observing, 504, ends("1"), 1, 8 * time.Second},
		"no budget":      {getUp, tokens(0), 504, ends("1"), 1, 8 * time.Second},
		"the last":       {getUp, atMost(1), 504, ends("1"), 1, 8 * time.Second},
		"no time for it": {getUp, after(4 * time.Second), 504, ends("1"), 1, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.change
			if change == nil {
				change = func(*policy.Upstream) {}
			}
			inPair(t, paired(1, windowOf(8*time.Second), change), func(b *bubble) {
				a := b.serve("a:80", always(""))
				began := time.Now()
				b.want(b.request(test.request), test.status, test.stop)
				within(b.T, time.Since(began), test.took)
				b.counts(test.attempts, test.attempts-1, a)
			})
		})
	}
}

// TestWindowAndEndpoints: what hangs at one endpoint has time left for the other.
func TestWindowAndEndpoints(t *testing.T) {
	inPair(t, paired(2, windowOf(8*time.Second)), func(b *bubble) {
		a, c := b.serve("a:80", always("")), b.serve("b:80", always(ok))
		for range 10 {
			if got := b.get(); got.status != 200 {
				b.Errorf("%+v", got)
			}
		}
		hung, _ := a.seen()
		b.tally(10+hung, hung, a, c)
	})
}

// TestWindowAndBudget: a wait that could not end before the window does is not paid
// for.
func TestWindowAndBudget(t *testing.T) {
	inPair(t, paired(1, after(3*time.Second), windowOf(2*time.Second)), func(b *bubble) {
		a := b.serve("a:80", always(fiveOhThree))
		began := time.Now()
		b.want(b.get(), 503, stopped(1, "window", 503))
		within(b.T, time.Since(began), 0)
		b.tally(1, 0, a)
	})
}

// TestTruncatedAndOthers: an answer that broke off while it was held is a failure, and
// one that cannot be retried is not given as half an answer.
func TestTruncatedAndOthers(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		change  func(u *policy.Upstream)
		stop    string
	}{
		"POST":     {postUp, breaking, "attempts=1; stop=not_idempotent; received-status=200; error=http_response_incomplete"},
		"nested":   {nestedUp, breaking, "attempts=1; stop=nested; received-status=200; error=http_response_incomplete"},
		"too long": {longPut, breaking, "attempts=1; stop=body_not_replayable; received-status=200; error=http_response_incomplete"},
		"breaker":  {getUp, breaking, "attempts=2; stop=circuit_open; received-status=200; error=http_response_incomplete"},
		"budget":   {getUp, tokens(0), "attempts=1; stop=budget; received-status=200; error=http_response_incomplete"},
		"places":   {getUp, atOnce(1, 0, 0), "attempts=4; stop=max_attempts; received-status=200; error=http_response_incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, paired(1, test.change), func(b *bubble) {
				b.serve("a:80", always(halfAnswer))
				b.want(b.request(test.request), 502, test.stop)
			})
		})
	}
}
