package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeafIsKept: one leaf for all spellings, until less than four hours are
// left.
func TestLeafIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAuthority(t)
		first := mustLeaf(t, a, "api.test")
		for _, name := range []string{"api.test", "API.test", "api.test."} {
			if mustLeaf(t, a, name) != first {
				t.Error(name, "has a leaf of its own")
			}
		}
		if mustLeaf(t, a, "::1") != mustLeaf(t, a, "[0:0::1]") {
			t.Error("an address has two leaves")
		}
		time.Sleep(20*time.Hour - time.Minute)
		if mustLeaf(t, a, "api.test") != first {
			t.Error("made anew with four hours left")
		}
		time.Sleep(2 * time.Minute)
		second := mustLeaf(t, a, "api.test")
		if second == first {
			t.Fatal("kept with less than four hours left")
		}
		if left := time.Until(second.Leaf.NotAfter); left < 24*time.Hour-time.Second || left > 24*time.Hour {
			t.Error("the new one is valid for", left)
		}
		if mustLeaf(t, a, "api.test") != second {
			t.Error("the new one is not kept")
		}
	})
}

// TestLeafAfterLong: one that has expired long ago is not served.
func TestLeafAfterLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAuthority(t)
		mustLeaf(t, a, "api.test")
		time.Sleep(30 * 24 * time.Hour)
		if left := time.Until(mustLeaf(t, a, "api.test").Leaf.NotAfter); left < 23*time.Hour {
			t.Error("valid for", left)
		}
	})
}

// TestLeafOfAnOldRoot: a leaf outlives no root, is not made anew at each
// handshake while the root ends, and an error once it has ended.
func TestLeafOfAnOldRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAuthority(t)
		time.Sleep(time.Until(a.Root().NotAfter) - 2*time.Hour)
		c := mustLeaf(t, a, "api.test")
		if !c.Leaf.NotAfter.Equal(a.Root().NotAfter) {
			t.Error("valid until", c.Leaf.NotAfter, "the root until", a.Root().NotAfter)
		}
		if mustLeaf(t, a, "api.test") != c {
			t.Error("made anew, to no use")
		}
		time.Sleep(3 * time.Hour)
		for range 2 {
			if c, err := a.Leaf("api.test"); err == nil {
				t.Error("signed by a root that has expired, until", c.Leaf.NotAfter)
			} else if _, is := errors.AsType[*NameError](err); is {
				t.Error("the name is blamed:", err)
			}
		}
		if n := a.leaves.recent.Len(); n != 0 {
			t.Error("failures are kept:", n)
		}
	})
}

// TestLeafLRU: 1,024 are kept, those used last.
func TestLeafLRU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAuthority(t)
		first, second := mustLeaf(t, a, "n0.test"), mustLeaf(t, a, "n1.test")
		for i := range maxLeaves - 2 {
			mustLeaf(t, a, fmt.Sprintf("n%d.test", i+2))
		}
		if mustLeaf(t, a, "n0.test") != first { // used: no longer the oldest
			t.Fatal("fewer are kept")
		}
		mustLeaf(t, a, "more.test")
		if len(a.leaves.byName) != maxLeaves || a.leaves.recent.Len() != maxLeaves {
			t.Error("kept:", len(a.leaves.byName), a.leaves.recent.Len())
		}
		if mustLeaf(t, a, "n0.test") != first {
			t.Error("the one used last is gone")
		}
		if mustLeaf(t, a, "n1.test") == second {
			t.Error("the one not used longest is there")
		}
	})
}

// TestLeafOnce: of 64 handshakes at once for a new name, one leaf.
func TestLeafOnce(t *testing.T) {
	a := newTestAuthority(t)
	for round := range 20 {
		name := fmt.Sprintf("n%d.test", round)
		var got [64]*tls.Certificate
		gate := make(chan struct{})
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				<-gate
				got[i], _ = a.Leaf(name)
			})
		}
		close(gate)
		all.Wait()
		for _, c := range got {
			if c == nil || c != got[0] {
				t.Fatal("more than one leaf")
			}
		}
	}
}

// TestLeafHoldsUpNobody: while one name's leaf is being made, and others wait for
// it, another name is served.
func TestLeafHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAuthority(t)
		slow, mine := a.leaves.find("slow.test", time.Now())
		if !mine {
			t.Fatal("somebody else makes it")
		}
		waiter := make(chan *tls.Certificate)
		go func() { c, _ := a.Leaf("slow.test"); waiter <- c }()
		synctest.Wait()
		mustLeaf(t, a, "other.test")
		_, addr, _ := canonical("slow.test")
		a.mint(slow, addr)
		if c := <-waiter; c == nil || c != slow.cert {
			t.Error("the waiter got another")
		}
	})
}

// TestLeafClockPutBack: a leaf that is not valid yet is not served.
func TestLeafClockPutBack(t *testing.T) {
	a := newTestAuthority(t)
	mustLeaf(t, a, "api.test")
	if l, mine := a.leaves.find("api.test", time.Now().Add(-2*time.Hour)); !mine {
		t.Error("served before it is valid:", l.cert.Leaf.NotBefore)
	}
}

func TestLeafMistakes(t *testing.T) {
	a := newTestAuthority(t)
	for _, name := range []string{"", "*.test", "a b", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 130) + "test", "1.2.3"} {
		_, err := a.Leaf(name)
		if _, is := errors.AsType[*NameError](err); !is {
			t.Errorf("%q: %v", name, err)
		}
	}
	if n := a.leaves.recent.Len(); n != 0 {
		t.Error("kept:", n)
	}
}

// TestLeafAllocates: a leaf that is kept costs no allocation.
func TestLeafAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a := newTestAuthority(t)
	mustLeaf(t, a, "api.test")
	mustLeaf(t, a, "127.0.0.1")
	if n := testing.AllocsPerRun(100, func() { a.Leaf("api.test") }); n != 0 {
		t.Error("allocations:", n)
	}
}
