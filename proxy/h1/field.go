package h1

// Field is one line of a head: its name as it was spelled and its value without
// the white space around it. Both are slices of a connection's buffer; see
// Request and Response for how long they live.
type Field struct {
	Name, Value []byte
	known       KnownName
	looked      bool
}

// Known returns which of the known names the field has.
func (f Field) Known() KnownName {
	if !f.looked {
		return LookupName(f.Name)
	}
	return f.known
}

// Header is the fields of a head (or of a trailer section) in wire order.
type Header []Field

// Get returns the value of the first field called name, in any case, or nil.
func (h Header) Get(name string) []byte {
	for i := range h {
		if EqualName(h[i].Name, name) {
			return h[i].Value
		}
	}
	return nil
}

// GetKnown is Get for a known name.
func (h Header) GetKnown(k KnownName) []byte {
	for i := range h {
		if h[i].Known() == k {
			return h[i].Value
		}
	}
	return nil
}

// Joined returns the values of all fields of a known name as one list (RFC 9110
// section 5.3).
func (h Header) Joined(k KnownName) string {
	var all []byte
	for i := range h {
		if h[i].Known() != k {
			continue
		}
		if len(all) > 0 {
			all = append(all, ", "...)
		}
		all = append(all, h[i].Value...)
	}
	return string(all)
}

// Has reports whether there is a field called name.
func (h Header) Has(name string) bool { return h.Count(name) > 0 }

// Count returns how many fields are called name.
func (h Header) Count(name string) int {
	n := 0
	for i := range h {
		if EqualName(h[i].Name, name) {
			n++
		}
	}
	return n
}

// HasToken reports whether token is an element of the comma-separated lists
// that all fields called name make together (RFC 9110 section 5.3).
func (h Header) HasToken(name, token string) bool {
	for i := range h {
		if EqualName(h[i].Name, name) && HasToken(h[i].Value, token) {
			return true
		}
	}
	return false
}

// HasToken reports whether token, in any case, is an element of the
// comma-separated list in value.
func HasToken(value []byte, token string) bool {
	for len(value) > 0 {
		var element []byte
		element, value = nextElement(value)
		if EqualName(element, token) {
			return true
		}
	}
	return false
}

// nextElement cuts the first element off a comma-separated list; quoted strings
// are not looked into, since no list that this package reads has them.
func nextElement(list []byte) (element, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trimSpace(list[:i]), list[i+1:]
		}
	}
	return trimSpace(list), nil
}

// trimSpace removes optional white space (RFC 9110 section 5.6.3) on both sides.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// EqualName reports whether a and b are the same name but for the case of ASCII
// letters.
func EqualName(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(b) {
		if a[i] != b[i] && lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// NewField makes a field for who has not read it from an HTTP/1.1 head.
func NewField(name, value []byte) Field {
	return Field{Name: name, Value: value, known: LookupName(name), looked: true}
}
