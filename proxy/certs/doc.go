// Package certs makes and keeps the certificates that mulligan shows: those of
// the local CA, by which it speaks for the names that it intercepts, and those
// of its own TLS listeners.
//
//	Load(data_dir) ──► Authority ◄── New(permitted names)       exec: in memory only
//	                   │       │
//	     Leaf(name): LRU       └ the issuer of "internal" ┐
//	     intercepted names                                ├► Listener ─► Managed.TLS()
//	                            ACME, by certmagic ───────┤              renewed while
//	                            files, read again ────────┘              it is served
//
// Leaves for intercepted names come from memory, not from certmagic: there can
// be very many names, each is signed in a fraction of a millisecond, and none
// is worth a file. Certmagic keeps the root (its storage and lock) and manages
// the few certificates of listeners.
//
// Start reading at Authority, then Leaf, then Listener.
package certs
