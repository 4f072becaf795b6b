package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mulligan/policy"
)

// TestHedgeAddsUp: whatever comes back when, the client gets an answer that an
// upstream gave or a reason, what is counted is what was sent, and that was paid for.
func TestHedgeAddsUp(t *testing.T) {
	seed := rand.Uint64()
	for i := range 200 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		hedgeOnce(t, r)
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, i)
		}
	}
}

func hedgeOnce(t *testing.T, r *rand.Rand) {
	most := 1 + r.IntN(5)
	leaves, after := r.IntN(5) == 0, time.Duration(r.IntN(3000))*time.Millisecond
	request := getUp
	if n := []int{0, 0, 10, 100_000}[r.IntN(4)]; n > 0 {
		request = fmt.Sprintf("PUT http://up/ HTTP/1.1\r\nHost: up\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
	}
	story := fmt.Sprint("max_attempts ", most)
	inTrouble(t, struggling(1+r.IntN(2), func(u *policy.Upstream) {
		u.Default.Hedge = policy.Hedge{Delay: time.Duration(1+r.IntN(20)) * 50 * time.Millisecond, Max: r.IntN(4)}
		u.Default.Retry.MaxAttempts = most
		u.Budget = policy.BudgetConfig{Burst: float64(r.IntN(8))}
		u.Default.Timeout.Attempt = time.Duration(1+r.IntN(4)) * 500 * time.Millisecond
		u.Default.Timeout.Total = 5 * time.Second
		if r.IntN(4) == 0 {
			u.Default.Buffer.Response = 0
		}
		if r.IntN(3) == 0 {
			u.Concurrency = policy.Concurrency{Max: 1 + r.IntN(4), MaxWait: time.Second, Queue: 2}
		}
		if r.IntN(3) == 0 {
			withBreaker(u)
			u.Breaker.MinRequests = 1 + r.IntN(3)
		}
		if r.IntN(3) == 0 {
			u.Default.Buffer.Request = 50_000
		}
		u.Default.Buffer.FirstEvent = r.IntN(3) == 0
		u.Default.Retry.RetryOn.Add("error_event")
		story += fmt.Sprintf(" %+v %+v %+v", u.Default.Hedge, u.Budget, u.Default.Timeout)
	}), func(b *bubble) {
		var mu sync.Mutex
		hits := 0
		answer := func(int, *http.Request) string {
			mu.Lock()
			hits++
			d := time.Duration(r.IntN(30)) * 100 * time.Millisecond
			if r.IntN(2) == 0 {
				d = 0
			}
			a := []string{ok, ok, fiveOhThree, fiveOhThree, half, "", "NONSENSE\r\n\r\n",
				"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
				"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + fiveOhThree,
				"HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n",
				"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
				"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
				"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
				"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n:\n\n\r\n",
				"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 23\r\n\r\nevent: error\ndata: {}\n\n"}[r.IntN(15)]
			story += fmt.Sprintf("\n%d: after %v %q", hits, d, a)
			mu.Unlock()
			time.Sleep(d)
			return a
		}
		b.serve("a:80", answer)
		b.serve("b:80", answer)
		before := b.value("mulligan_retry_budget_remaining", "upstream=up")
		began := time.Now()
		c := b.open()
		if leaves {
			io.WriteString(c, request)
			time.Sleep(after)
			c.Close()
			time.Sleep(100 * time.Millisecond)
		} else {
			io.WriteString(c, request)
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			for err == nil && resp.StatusCode < 200 {
				resp, err = http.ReadResponse(in, nil)
			}
			if err != nil {
				b.Fatal(err, story)
			}
			if took := time.Since(began); took > 5*time.Second+2*50*time.Millisecond {
				b.Errorf("took %v", took)
			}
			status := resp.Header.Get("Proxy-Status")
			go io.Copy(io.Discard, resp.Body)
			time.Sleep(time.Second)
			c.Close()
			mu.Lock()
			if want := fmt.Sprintf("attempts=%d;", hits); status != "" && !strings.Contains(status, want) {
				b.Errorf("%d %q, and %d were made", resp.StatusCode, status, hits)
			}
			if resp.StatusCode < 200 || hits > most {
				b.Errorf("%d %q", resp.StatusCode, status)
			}
			story += "\n" + resp.Status + " " + status
			mu.Unlock()
		}
		time.Sleep(10 * time.Second)
		b.balanced()
		if held := b.srv.Held(); held != "" {
			b.Error(held)
		}
		paid := before - b.value("mulligan_retry_budget_remaining", "upstream=up")
		attempts, retries := sum(b, b.reg, "mulligan_attempts_total", ""), sum(b, b.reg, "mulligan_retries_total", "")
		mu.Lock()
		defer mu.Unlock()
		if attempts != float64(hits) || hits > 0 && retries != float64(hits-1) || paid != retries {
			b.Errorf("%d were made, %v attempts and %v retries counted, %v paid", hits, attempts, retries, paid)
		}
		if requests := sum(b, b.reg, "mulligan_requests_total", ""); requests != 1 {
			b.Errorf("%v requests", requests)
		}
		if b.Failed() {
			b.Log(story)
		}
	})
}
