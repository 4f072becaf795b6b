package proxy

import "sync"

// maxHinted bounds the hosts that are remembered: a wildcard has any number.
const maxHinted = 1024

// hints remembers what was said of which hosts already.
type hints struct {
	mu   sync.Mutex
	said map[string]bool
	fine map[string]bool // whose clients have trusted us
}

// first reports whether it was not said yet; from now on it was.
func (h *hints) first(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return remember(&h.said, what)
}

// trusted notes that a client of the host has gone through with a request: that
// one leaves without is no sign of distrust any more.
func (h *hints) trusted(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	remember(&h.fine, host)
}

func (h *hints) isTrusted(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fine[foldHost(host)]
}

// remember adds the host to a set, and reports whether it was not in it. A set
// that is full begins anew: better to say a thing twice than never.
func remember(set *map[string]bool, host string) bool {
	host = foldHost(host)
	if (*set)[host] {
		return false
	}
	if *set == nil || len(*set) >= maxHinted {
		*set = map[string]bool{}
	}
	(*set)[host] = true
	return true
}
