package h1

import "bytes"

// maxEmptyLines is how many empty lines before a request line are ignored (RFC
// 9112 section 2.2: at least one).
const maxEmptyLines = 2

// scanner looks for the end of a head, or of a trailer section, in bytes that
// arrive bit by bit. It never looks at a byte twice.
type scanner struct {
	lenient bool // a bare LF ends a line (responses)
	trailer bool // the first empty line ends the section
	empty   int  // leading empty lines that may still be ignored

	start int // first byte of the first line that is not empty
	line  int // first byte of the line being looked at
	pos   int // bytes looked at
}

// scan looks at the new bytes of b, which begins with all bytes of earlier
// calls. It returns the length of the head, its empty line included, or 0 if
// that is not there yet.
func (s *scanner) scan(b []byte) (int, error) {
	for {
		i := bytes.IndexByte(b[s.pos:], '\n')
		if i < 0 {
			s.pos = len(b)
			return 0, nil
		}
		end := s.pos + i // of the line, LF excluded
		s.pos = end + 1
		if end > s.line && b[end-1] == '\r' {
			end--
		} else if !s.lenient {
			return 0, malformed("bare LF")
		}
		if end == s.line {
			if done, err := s.emptyLine(); done || err != nil {
				return s.pos, err
			}
		}
		s.line = s.pos
	}
}

// emptyLine decides what an empty line that ends at pos means.
func (s *scanner) emptyLine() (done bool, err error) {
	if s.trailer || s.line > s.start {
		return true, nil
	}
	if s.empty == 0 {
		return false, malformed("empty line before the head")
	}
	s.empty--
	s.start = s.pos
	return false, nil
}
