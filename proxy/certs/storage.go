package certs

import (
	"context"
	"sync"

	"github.com/caddyserver/certmagic"
)

// storage is certmagic's file storage for one listener, which knows whether
// certmagic works with it: whoever gets a certificate holds a lock, and writes
// before it takes one to see that it can. Certmagic's own goroutines can be told
// to end, but not be waited for.
type storage struct {
	files
	mu     sync.Mutex
	held   int // locks and writes
	closed bool
	idle   chan struct{} // closed when nothing is held any more, nor will be
}

func newStorage(path string) *storage {
	return &storage{files: files{certmagic.FileStorage{Path: path}}, idle: make(chan struct{})}
}

// Lock implements certmagic.Locker.
func (s *storage) Lock(ctx context.Context, name string) error {
	if err := s.enter(); err != nil {
		return err
	}
	err := s.files.Lock(ctx, name)
	if err != nil {
		s.leave()
	}
	return err
}

// TryLock implements certmagic.TryLocker.
func (s *storage) TryLock(ctx context.Context, name string) (bool, error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	ok, err := s.files.TryLock(ctx, name)
	if !ok || err != nil {
		s.leave()
	}
	return ok, err
}

// Unlock implements certmagic.Locker.
func (s *storage) Unlock(ctx context.Context, name string) error {
	defer s.leave()
	return s.files.Unlock(ctx, name)
}

// Store implements certmagic.Storage. Whoever holds a lock may store to the end.
func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	s.mu.Lock()
	if s.closed && s.held == 0 {
		s.mu.Unlock()
		return context.Canceled
	}
	s.held++
	s.mu.Unlock()
	defer s.leave()
	return s.files.Store(ctx, key, value)
}

func (s *storage) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return context.Canceled
	}
	s.held++
	return nil
}

func (s *storage) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	s.wake()
}

// close refuses locks from now on, and writes once no lock is held. The channel
// is closed when the last one has been given back.
func (s *storage) close() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
	return s.idle
}

// wake is called with mu held.
func (s *storage) wake() {
	if s.closed && s.held == 0 {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}
