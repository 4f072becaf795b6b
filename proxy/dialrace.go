package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// raceDelay is how long the dial of one address has before that of the next begins
// beside it. RFC 8305 5 recommends 250 ms; Go's own dialer has 300.
const raceDelay = 300 * time.Millisecond

// racer is how the dial of one of several addresses ended.
type racer struct {
	addr netip.AddrPort
	conn net.Conn
	err  error
}

// dialRace dials addresses in their order, each once those before it have failed or have
// had their time, and returns the first connection. What failed, or was slower, is
// told to lost. The error is that of a denied address where there was one, else the
// first.
func dialRace(ctx context.Context, addrs []netip.AddrPort, dial func(context.Context, netip.AddrPort) (net.Conn, error), lost func(netip.AddrPort)) (net.Conn, error) {
	if len(addrs) == 1 {
		conn, err := dial(ctx, addrs[0])
		if err != nil {
			lost(addrs[0])
		}
		return conn, err
	}
	delay := raceDelay
	if end, ok := ctx.Deadline(); ok {
		delay = min(delay, time.Until(end)/time.Duration(len(addrs)))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan racer, len(addrs))
	timer := time.NewTimer(0)
	defer timer.Stop()
	var won net.Conn
	var failure error
	for waiting, running := addrs, 0; len(waiting) > 0 || running > 0; {
		var turn <-chan time.Time // of the next address
		if len(waiting) > 0 {
			turn = timer.C
		}
		select {
		case <-turn:
			addr := waiting[0]
			waiting = waiting[1:]
			running++
			timer.Reset(delay)
			go func() {
				conn, err := dial(ctx, addr)
				ended <- racer{addr, conn, err}
			}()
		case r := <-ended:
			running--
			switch {
			case r.err == nil && won == nil:
				won, waiting = r.conn, nil
				cancel()
				continue
			case r.err == nil:
				r.conn.Close()
			case ctx.Err() != nil:
				waiting = nil // the time is over
			default:
				timer.Reset(0)
			}
			failure = firstOrDenied(failure, r.err)
			lost(r.addr)
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, failure
}

// firstOrDenied returns the error that says more of the two: that an address is
// denied will be so next time, and the first is that of the address that was liked
// best.
func firstOrDenied(first, next error) error {
	if first == nil || errors.As(next, new(*deniedError)) && !errors.As(first, new(*deniedError)) {
		return next
	}
	return first
}
