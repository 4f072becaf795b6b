package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestRace: the dials of a name's addresses, in virtual time.
func TestRace(t *testing.T) {
	const ms = time.Millisecond
	type reaction struct {
		after time.Duration // 0: never
		err   error
	}
	refused, denied := reaction{1, syscall.ECONNREFUSED}, reaction{1, &deniedError{Rule: "a rule"}}
	hangs, answers := reaction{}, reaction{after: 1}
	for name, row := range map[string]struct {
		addrs   []reaction
		timeout time.Duration
		won     int // -1: none
		err     error
		lost    []int
		took    time.Duration
	}{
		"one":                             {[]reaction{answers}, 5 * time.Second, 0, nil, nil, 1},
		"one, refused":                    {[]reaction{refused}, 5 * time.Second, -1, syscall.ECONNREFUSED, []int{0}, 1},
		"the first":                       {[]reaction{answers, answers}, 5 * time.Second, 0, nil, nil, 1},
		"the first refuses":               {[]reaction{refused, answers}, 5 * time.Second, 1, nil, []int{0}, 2},
		"the first is dead":               {[]reaction{hangs, answers}, 5 * time.Second, 1, nil, []int{0}, raceDelay + 1},
		"without a limit":                 {[]reaction{hangs, answers}, 0, 1, nil, []int{0}, raceDelay + 1},
		"each has its share":              {[]reaction{hangs, hangs, hangs, answers}, 100 * ms, 3, nil, []int{0, 1, 2}, 75*ms + 1},
		"the first is slow, and wins":     {[]reaction{{after: 400 * ms}, {after: time.Second}}, 5 * time.Second, 0, nil, []int{1}, 400 * ms},
		"all are dead":                    {[]reaction{hangs, hangs}, 5 * time.Second, -1, context.DeadlineExceeded, []int{0, 1}, 5 * time.Second},
		"all refuse":                      {[]reaction{refused, refused}, 5 * time.Second, -1, syscall.ECONNREFUSED, []int{0, 1}, 2},
		"one is denied, the other is not": {[]reaction{denied, answers}, 5 * time.Second, 1, nil, []int{0}, 2},
		"denied, behind a refusal":        {[]reaction{refused, denied}, 5 * time.Second, -1, denied.err, []int{0, 1}, 2},
		"denied, before a refusal":        {[]reaction{denied, refused}, 5 * time.Second, -1, denied.err, []int{0, 1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				if row.timeout > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), row.timeout)
				}
				defer cancel()
				var addrs []netip.AddrPort
				for i := range row.addrs {
					addrs = append(addrs, addrOf(i))
				}
				began := time.Now()
				dial := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
					r := row.addrs[slices.Index(addrs, addr)]
					var after <-chan time.Time
					if r.after > 0 {
						after = time.After(r.after)
					}
					select {
					case <-after:
						if r.err != nil {
							return nil, r.err
						}
						ours, _ := net.Pipe()
						return placed{ours, addr}, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				var lost []int
				conn, err := dialRace(ctx, addrs, dial, func(a netip.AddrPort) { lost = append(lost, slices.Index(addrs, a)) })
				if took := time.Since(began); took != row.took {
					t.Errorf("took %v, want %v", took, row.took)
				}
				won := -1
				if conn != nil {
					won = slices.Index(addrs, conn.(placed).addr)
				}
				slices.Sort(lost)
				if won != row.won || !errors.Is(err, row.err) || !slices.Equal(lost, row.lost) {
					t.Errorf("won %d, lost %v, %v", won, lost, err)
				}
			})
		})
	}
}

// placed is a connection that was dialled to an address.
type placed struct {
	net.Conn
	addr netip.AddrPort
}

func addrOf(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 80)
}

func TestByTurns(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"1.1.1.1":                  "1.1.1.1",
		"1.1.1.2 1.1.1.1":          "1.1.1.2 1.1.1.1",
		"::1 ::2 ::3 1.1.1.1":      "::1 1.1.1.1 ::2 ::3",
		"1.1.1.1 ::1 ::2 1.1.1.2":  "1.1.1.1 ::1 1.1.1.2 ::2",
		"1.1.1.1 1.1.1.2 ::1 ::2 ": "1.1.1.1 ::1 1.1.1.2 ::2",
	} {
		if got := byTurns(addrsOf(in)); !slices.Equal(got, addrsOf(want)) {
			t.Errorf("%s: %v", in, got)
		}
	}
}

func addrsOf(s string) (addrs []netip.Addr) {
	for _, a := range strings.Fields(s) {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs
}

// TestFailedAddrs: they are bounded, of the oldest, and each is there once.
func TestFailedAddrs(t *testing.T) {
	var none *failedAddrs
	none.add(addrOf(1))
	var f failedAddrs
	f.add(netip.AddrPort{})
	f.add(addrOf(1))
	f.add(addrOf(1))
	if got := f.all(); !slices.Equal(got, []netip.AddrPort{addrOf(1)}) {
		t.Error(got)
	}
	addrs := []netip.AddrPort{addrOf(1), addrOf(2), addrOf(3)}
	if got := failedLast(addrs, &f); !slices.Equal(got, []netip.AddrPort{addrOf(2), addrOf(3), addrOf(1)}) {
		t.Error(got)
	}
	for i := range 20 {
		f.add(addrOf(i))
	}
	if got := f.all(); len(got) != len(f.list) || slices.Contains(got, addrOf(11)) || !slices.Contains(got, addrOf(12)) || !slices.Contains(got, addrOf(19)) {
		t.Error(got)
	}
}

// TestOtherAddress: a name has another address where one of those that it was last
// resolved to has not failed.
func TestOtherAddress(t *testing.T) {
	var n nameAddrs
	if n.others(nil) {
		t.Error("before it was resolved")
	}
	n.note([]netip.AddrPort{addrOf(1), addrOf(2)})
	if !n.others([]netip.AddrPort{addrOf(1)}) || n.others([]netip.AddrPort{addrOf(2), addrOf(1)}) {
		t.Error("of two")
	}
	n.note([]netip.AddrPort{addrOf(1)})
	if n.others([]netip.AddrPort{addrOf(1)}) {
		t.Error("of one")
	}
	(*nameAddrs)(nil).note(nil)
}
