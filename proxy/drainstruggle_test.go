package proxy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"mulligan/policy"
)

// TestDrainWithQueue: first attempts that wait for a place, or for their turn, are
// made; retries that do are not.
func TestDrainWithQueue(t *testing.T) {
	for name, limit := range map[string]func(u *policy.Upstream){
		"concurrency": func(u *policy.Upstream) {
			u.Concurrency = policy.Concurrency{Max: 1, Queue: 4, MaxWait: 20 * time.Second}
		},
		"rate_limit": func(u *policy.Upstream) {
			u.RateLimit = policy.RateLimit{PerSecond: 0.5, Burst: 1, MaxWait: 20 * time.Second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTrouble(t, struggling(1, limit), func(b *bubble) {
				b.serve("a:80", func(n int, _ *http.Request) string {
					if n == 1 {
						return fiveOhThree
					}
					time.Sleep(3 * time.Second)
					return ok
				})
				second := make(chan reply, 1)
				first := b.later(getUp)
				time.Sleep(time.Millisecond) // before its retry
				go func() { second <- b.request(getUp) }()
				third := make(chan reply, 1)
				time.Sleep(20 * time.Millisecond)
				go func() { third <- b.request(getUp) }()
				time.Sleep(500 * time.Millisecond)
				ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
				defer cancel()
				drained := make(chan error, 1)
				began := time.Now()
				go func() { drained <- b.srv.Shutdown(ctx) }()
				got := <-first
				if got.status != 200 { // it may have been the retry that came first
					b.want(got, 503, "attempts=1; stop=draining; received-status=503")
					within(b.T, time.Since(began), 0)
				}
				b.want(<-second, 200, "")
				b.want(<-third, 200, "")
				if err := <-drained; err != nil {
					b.Error(err)
				}
				if held := b.srv.Held(); held != "" {
					b.Error(held)
				}
			})
		})
	}
}

// TestDrainCutsQueue: who still waits for a place when shutdown_grace is over is cut
// off with the others.
func TestDrainCutsQueue(t *testing.T) {
	inTrouble(t, struggling(1, func(u *policy.Upstream) {
		u.Concurrency = policy.Concurrency{Max: 1, Queue: 4, MaxWait: 20 * time.Second}
	}), func(b *bubble) {
		a := b.serve("a:80", always(""))
		for range 3 {
			c := b.open()
			defer c.Close()
			go c.Write([]byte(getUp))
		}
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		began := time.Now()
		b.srv.Shutdown(ctx)
		within(b.T, time.Since(began), 2*time.Second)
		if hits, _ := a.seen(); hits != 1 {
			b.Errorf("%d attempts", hits)
		}
		if held := b.srv.Held(); held != "" {
			b.Error(held)
		}
		b.balanced()
	})
}

// TestDrainCutsHedges, too.
func TestDrainCutsHedges(t *testing.T) {
	inTrouble(t, struggling(2, hedged), func(b *bubble) {
		a, c := b.serve("a:80", always("")), b.serve("b:80", always(""))
		client := b.open()
		defer client.Close()
		go client.Write([]byte(getUp))
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		b.srv.Shutdown(ctx)
		one, _ := a.seen()
		other, _ := c.seen()
		if one+other != 2 {
			b.Errorf("%d and %d attempts", one, other)
		}
		_, ended := a.seen()
		_, more := c.seen()
		if ended+more != 2 {
			b.Errorf("%d and %d were closed", ended, more)
		}
		if held := b.srv.Held(); held != "" {
			b.Error(held)
		}
		b.balanced()
	})
}
