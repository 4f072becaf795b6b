package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mulligan/policy"
	"mulligan/proxy"
)

// The tests of pairs_*_test.go: each of what an upstream in trouble has (or its
// clients do), with each other. All are in virtual time, and count exactly.

// pairBudget is what the retries of a pair's test are paid from. No answer adds to
// it, so that it shows to the token what was paid and given back.
const pairBudget = 10

// paired is the settings of struggling with that budget.
func paired(endpoints int, change ...func(u *policy.Upstream)) *proxy.Settings {
	return struggling(endpoints, func(u *policy.Upstream) {
		u.Budget = policy.BudgetConfig{Burst: pairBudget, Window: 10 * time.Second}
		for _, f := range change {
			f(u)
		}
	})
}

// inPair is inTrouble, and looks in the end for what was not given back.
func inPair(t *testing.T, s *proxy.Settings, f func(b *bubble)) {
	t.Helper()
	inTrouble(t, s, func(b *bubble) {
		f(b)
		time.Sleep(time.Second)
		b.balanced()
		if held := b.srv.Held(); held != "" {
			b.Error(held)
		}
	})
}

// tally is counts and left, where each retry has cost a token of pairBudget.
func (b *bubble) tally(attempts, retries int, peers ...*peer) {
	b.Helper()
	b.counts(attempts, retries, peers...)
	b.left(pairBudget - retries)
}

// counts compares the attempts that the peers saw, and those that were counted, and
// the retries among them, with what is expected. Dials are seen by no peer.
func (b *bubble) counts(attempts, retries int, peers ...*peer) {
	b.Helper()
	synctest.Wait()
	seen := 0
	for _, p := range peers {
		n, _ := p.seen()
		seen += n
	}
	counted, again := counter(b, b.reg, "mulligan_attempts_total", "upstream=up"), counter(b, b.reg, "mulligan_retries_total", "upstream=up")
	if len(peers) > 0 && seen != attempts || counted != float64(attempts) || again != float64(retries) {
		b.Errorf("%d attempts seen, %v counted, %v retries; want %d and %d", seen, counted, again, attempts, retries)
	}
}

// left expects so many tokens of the budget.
func (b *bubble) left(tokens int) {
	b.Helper()
	b.expect("mulligan_retry_budget_remaining", float64(tokens), "upstream=up")
}

// waits expects a Retry-After between the two.
func (b *bubble) waits(got reply, least, most int) {
	b.Helper()
	if n, err := strconv.Atoi(got.after); err != nil || n < least || n > most {
		b.Errorf("Retry-After %q, want %d to %d", got.after, least, most)
	}
}

// leaves sends a request, and its client goes away after a time.
func (b *bubble) leaves(text string, after time.Duration) {
	c := b.open()
	go io.WriteString(c, text)
	time.Sleep(after)
	c.Close()
}

// drains begins to shut the proxy down, and returns when all know.
func (b *bubble) drains() {
	go b.srv.Shutdown(b.Context())
	synctest.Wait()
}

// reload takes another configuration.
func (b *bubble) reload(s *proxy.Settings) {
	b.Helper()
	if err := b.srv.Reload(s); err != nil {
		b.Fatal(err)
	}
}

// tunnel opens one to the host, and returns what the CONNECT was answered with.
func (b *bubble) tunnel(host string) (net.Conn, *http.Response) {
	c := b.open()
	return c, b.send(c, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
}

// What the client sends besides getUp and postUp.
var (
	putUp    = strings.Replace(postUp, "POST", "PUT", 1)
	longPut  = "PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 2_000_000) // past buffer.request
	longPost = strings.Replace(longPut, "PUT", "POST", 1)
	nestedUp = strings.Replace(getUp, "\r\n\r\n", "\r\nVia: 1.1 mulligan-0a1b2c3d\r\n\r\n", 1)
)

// soon is a request whose client waits so many seconds.
func (b *bubble) soon(seconds string) string {
	return strings.Replace(getUp, "\r\n\r\n", "\r\nMulligan-Policy: total="+seconds+"\r\n\r\n", 1)
}

// What the peers answer besides ok, fiveOhThree and those with hints.
var (
	rateLimited = withLength(200, limited) // by the rules of withRules a failure
	errorEvent  = wholeStream(overloaded)
)

const (
	halfAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf" + andBreaks
	slowAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 100002\r\n\r\no" + aSecond + aSecond + aSecond + "k" // and 100000 more
)

// streamOf is an answer of events, a second from one to the next.
func streamOf(parts ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Join(chunked(parts), aSecond) + "0\r\n\r\n"
}

func chunked(parts []string) (all []string) {
	for _, p := range parts {
		all = append(all, strconv.FormatInt(int64(len(p)), 16)+"\r\n"+p+"\r\n")
	}
	return all
}

// What Proxy-Status says where nothing was sent.
const (
	circuitIsOpen = "attempts=0; stop=circuit_open; error=destination_unavailable"
	noRoom        = "attempts=0; stop=overloaded; error=connection_limit_reached"
)

func stopped(attempts int, stop string, status int) string {
	return "attempts=" + strconv.Itoa(attempts) + "; stop=" + stop + "; received-status=" + strconv.Itoa(status)
}

// What an upstream may have, for paired.

// breaking opens its circuit with the second failure.
func breaking(u *policy.Upstream) { withBreaker(u); u.Breaker.MinRequests = 2 }

func atOnce(most, queue int, wait time.Duration) func(u *policy.Upstream) {
	return func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: most, Queue: queue, MaxWait: wait}
	}
}

func paced(perSecond float64, burst int, wait time.Duration) func(u *policy.Upstream) {
	return func(u *policy.Upstream) {
		u.RateLimit = policy.RateLimit{PerSecond: perSecond, Burst: burst, MaxWait: wait}
	}
}

// after has retries wait for exactly that.
func after(d time.Duration) func(u *policy.Upstream) {
	return func(u *policy.Upstream) {
		u.Default.Retry.Backoff = policy.Backoff{Initial: d, Max: d, Multiplier: 1, Strategy: policy.Constant, Jitter: policy.NoJitter}
	}
}

func windowOf(d time.Duration) func(u *policy.Upstream) {
	return func(u *policy.Upstream) {
		u.Default.Timeout.Total = d
		if d > 0 {
			u.Default.Timeout.Attempt = min(u.Default.Timeout.Attempt, d)
		}
	}
}

func tokens(burst float64) func(u *policy.Upstream) {
	return func(u *policy.Upstream) { u.Budget.Burst = burst }
}

func atMost(attempts int) func(u *policy.Upstream) {
	return func(u *policy.Upstream) { u.Default.Retry.MaxAttempts = attempts }
}

func observing(u *policy.Upstream) { u.Default.Retry.Mode = policy.ModeObserve }

// withRules has those of ruledSettings.
func withRules(u *policy.Upstream) {
	r := ruledSettings().Default.Default.Retry
	u.Default.Retry.Rules, u.Default.Retry.RetryOn = r.Rules, r.RetryOn
}

func retries429(u *policy.Upstream) { u.Default.Retry.RetryOn.Add("429") }
