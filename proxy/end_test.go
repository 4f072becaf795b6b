package proxy

import "testing"

// TestLongInterimsAreNotKept: a connection between requests holds none of the 1xx
// that one of them got, of its last attempt or of the one before.
func TestLongInterimsAreNotKept(t *testing.T) {
	x := &exchange{s: &Server{}}
	x.interim = make([]byte, 2*maxInterim)
	x.last.interim = make([]byte, 2*maxInterim)
	x.end()
	if cap(x.interim) > maxInterim || cap(x.last.interim) > maxInterim {
		t.Errorf("%d and %d bytes are kept", cap(x.interim), cap(x.last.interim))
	}
}
