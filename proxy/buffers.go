package proxy

import (
	"sync"
	"sync/atomic"
)

// blockSize is the piece in which bodies are kept: small enough that a short
// body wastes little, large enough that a long one is few pieces.
const blockSize = 16 << 10

var blockPool = sync.Pool{New: func() any { return new([blockSize]byte) }}

// blocks is a body, or its beginning, in pooled memory.
type blocks struct {
	list []*[blockSize]byte
	size int64
}

// add copies p behind what is there.
func (b *blocks) add(p []byte) {
	for len(p) > 0 {
		at := int(b.size % blockSize)
		if at == 0 {
			b.list = append(b.list, blockPool.Get().(*[blockSize]byte))
		}
		n := copy(b.list[len(b.list)-1][at:], p)
		b.size += int64(n)
		p = p[n:]
	}
}

// piece returns the i-th piece of what is there, or nil.
func (b *blocks) piece(i int) []byte {
	if i >= len(b.list) {
		return nil
	}
	left := b.size - int64(i)*blockSize
	return b.list[i][:min(left, blockSize)]
}

// joined returns what is there in one piece.
func (b *blocks) joined() []byte {
	if p := b.piece(0); int64(len(p)) == b.size {
		return p
	}
	all := make([]byte, 0, b.size)
	for i := range b.list {
		all = append(all, b.piece(i)...)
	}
	return all
}

// reset gives the memory back.
func (b *blocks) reset() {
	for i, p := range b.list {
		blockPool.Put(p)
		b.list[i] = nil
	}
	b.list, b.size = b.list[:0], 0
}

// ledger counts the bytes that all replay and held bodies take together.
type ledger struct {
	limit, used atomic.Int64
}

// take books n bytes, or reports false where they would pass the limit.
func (l *ledger) take(n int64) bool {
	if l.used.Add(n) > l.limit.Load() {
		l.used.Add(-n)
		return false
	}
	return true
}

// over reports whether more is booked than the limit allows.
func (l *ledger) over() bool { return l.used.Load() > l.limit.Load() }

func (l *ledger) giveBack(n int64) {
	if n != 0 {
		l.used.Add(-n)
	}
}
