package certs

import (
	"container/list"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

const (
	maxLeaves = 1024          // kept at once
	renewLeft = 4 * time.Hour // a leaf with less life is made anew
)

// leaf is one certificate of the LRU, or one that is being made.
type leaf struct {
	name  string
	ready chan struct{} // closed once what follows holds
	cert  *tls.Certificate
	err   error
	due   time.Time // when a new one is to be made
}

// leaves is the LRU. Its zero value is empty.
type leaves struct {
	mu     sync.Mutex
	byName map[string]*list.Element // of *leaf
	recent list.List                // the one used last in front
}

// Leaf returns a certificate for a DNS name or an IP literal, with its key, for
// a TLS server. Case, a trailing dot and the brackets of an IPv6 literal do not
// matter. The chain is the leaf alone: clients have the root, or do not trust
// it (RFC 8446 section 4.4.2 allows to leave it out).
//
// It is valid for 24 hours, and kept (1,024 of them, those used last) until less
// than 4 are left. Of those who ask at once for a name one makes the leaf, and
// holds up nobody who asks for another.
//
// The error is a *NameError for what is no name, or none that may be signed;
// else the root has expired.
func (a *Authority) Leaf(name string) (*tls.Certificate, error) {
	name, addr, err := a.check(name)
	if err != nil {
		return nil, err
	}
	l, mine := a.leaves.find(name, time.Now())
	if mine {
		a.mint(l, addr)
	}
	<-l.ready
	return l.cert, l.err
}

// find returns the leaf of the canonical name. If it is mine, whoever asked has
// to make it: others wait for it.
func (s *leaves) find(name string, now time.Time) (l *leaf, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = make(map[string]*list.Element)
	}
	at := s.byName[name]
	if at != nil {
		s.recent.MoveToFront(at)
		if l := at.Value.(*leaf); l.usable(now) {
			return l, false
		}
	}
	l = &leaf{name: name, ready: make(chan struct{})}
	if at != nil {
		at.Value = l
		return l, true
	}
	s.byName[name] = s.recent.PushFront(l)
	if s.recent.Len() > maxLeaves {
		delete(s.byName, s.recent.Remove(s.recent.Back()).(*leaf).name)
	}
	return l, true
}

// drop forgets a leaf that could not be made.
func (s *leaves) drop(l *leaf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.byName[l.name]; at != nil && at.Value.(*leaf) == l {
		s.recent.Remove(at)
		delete(s.byName, l.name)
	}
}

// usable reports whether the leaf can be used now, or waited for. One that is
// not valid yet was made before the clock was put back.
func (l *leaf) usable(now time.Time) bool {
	select {
	case <-l.ready:
		return l.err == nil && now.Before(l.due) && !now.Before(l.cert.Leaf.NotBefore)
	default:
		return true
	}
}

// mint makes the leaf, without a lock.
func (a *Authority) mint(l *leaf, addr netip.Addr) {
	defer close(l.ready)
	l.cert, l.err = a.newLeaf(l.name, addr)
	if l.err != nil {
		a.leaves.drop(l)
		return
	}
	l.due = l.cert.Leaf.NotAfter.Add(-renewLeft)
	if l.cert.Leaf.NotAfter.Equal(a.root.NotAfter) {
		l.due = a.root.NotAfter // a new one would be valid no longer
	}
}

func (a *Authority) newLeaf(name string, addr netip.Addr) (*tls.Certificate, error) {
	der, err := a.sign(name, addr, a.leafKey.Public(), a.leafKeyID)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for %s: %w", name, err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate for %s: %w", name, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey, Leaf: parsed}, nil
}
