package proxy

import (
	"testing"

	"mulligan/proxy/h1"
)

// TestInterimsAreNotKept: a connection between requests holds none of the 1xx that
// one of them got, of its last attempt or of the one before.
func TestInterimsAreNotKept(t *testing.T) {
	x := &exchange{s: &Server{}}
	for _, in := range []*inHand{&x.inHand, &x.last} {
		in.interim = append(in.interim, &h1.Response{Status: 103})
		in.interimSize = 1
	}
	x.end()
	for _, in := range []inHand{x.inHand, x.last} {
		if len(in.interim) > 0 || in.interim[:1][0] != nil || in.interimSize != 0 {
			t.Errorf("kept: %v, %d bytes", in.interim[:1], in.interimSize)
		}
	}
}

// TestInterimsAreBounded: what an upstream says before its answer is only
// information, and may be dropped.
func TestInterimsAreBounded(t *testing.T) {
	x := &exchange{s: &Server{}}
	long := &h1.Response{Status: 103, Header: h1.Header{h1.NewField([]byte("Link"), make([]byte, maxInterim/2))}}
	for range 5 {
		x.keepInterim(long)
	}
	if len(x.interim) != 2 {
		t.Errorf("%d are kept, want 2", len(x.interim))
	}
}
