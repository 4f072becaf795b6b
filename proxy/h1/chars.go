package h1

import (
	"encoding/binary"
	"math/bits"
)

// Classes of bytes, as bits of charClass.
const (
	isToken = 1 << iota // tchar, RFC 9110 section 5.6.2
	isHost              // reg-name and port, RFC 3986 section 3.2.2, without %
	isHex
)

var charClass = func() (class [256]uint8) {
	mark := func(chars string, bit uint8) {
		for i := range len(chars) {
			class[chars[i]] |= bit
		}
	}
	const alpha, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	mark(alpha+digits+"!#$%&'*+-.^_`|~", isToken)
	mark(alpha+digits+"-._~!$&'()*+,;=", isHost)
	mark(digits+"abcdefABCDEF", isHex)
	return class
}()

func isAll(b []byte, bit uint8) bool {
	for _, c := range b {
		if charClass[c]&bit == 0 {
			return false
		}
	}
	return true
}

// skipText returns the index of the first byte of b at or after i that may not
// be in a field value: a control character other than HTAB (RFC 9110 section
// 5.5); len(b) if there is none. It looks at eight bytes at a time.
func skipText(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			del := x ^ ones*0x7f
			// The lowest set bit is exact; borrows can only falsify higher ones.
			m := ((x-ones*0x20)&^x | (del-ones)&^del) & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return len(b)
		}
		if c := b[i]; c < 0x20 && c != '\t' || c == 0x7f {
			return i
		}
		i++
	}
}

// parseDecimal reads 1*DIGIT that fits an int64.
func parseDecimal(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := int64(c - '0')
		if n > (1<<63-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
