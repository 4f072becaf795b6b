package proxy

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// TestNoDialForWhoIsOver: a request whose time is over before its dial begins has
// found no connection, as one that waited for a free one: that is no attempt.
func TestNoDialForWhoIsOver(t *testing.T) {
	s := &Server{opts: Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, net.ErrClosed
	}}}
	for _, https := range []bool{false, true} {
		st := newState(s, "up")
		secure, err := newPeerTLS(policy.TLS{})
		if err != nil {
			t.Fatal(err)
		}
		st.configure(&policy.Upstream{Name: "up"}, secure, nil, time.Now())
		a := st.newAuthority(authorityKey{host: "up", port: 80, https: https}, secure, st.shared, new(standing))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := a.links.Get(func() context.Context { return over }, wanted{}); !errors.Is(err, h1.ErrPoolFull) || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
