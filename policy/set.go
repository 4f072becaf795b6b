package policy

import (
	"fmt"
	"strings"
)

// Statuses that a Set can hold; RFC 9110 knows up to 599, servers invent more.
const (
	minStatus = 100
	maxStatus = 999
)

// dependencyOverloaded is the word for the statuses by which a server says
// that it, or what it depends on, has too much to do.
const dependencyOverloaded = "dependency_overloaded"

var overloadedStatuses = [...]int{429, 503, 529}

// Set is a set of conditions, as retry_on and do_not_retry_on list them:
// failure classes, gRPC statuses and statuses. The zero value is empty; Sets compare with ==.
type Set struct {
	classes  uint16 // bit per Class
	grpc     uint32 // bit per GRPC
	statuses [(maxStatus - minStatus + 64) / 64]uint64
}

// Add puts the condition that word names into the set: a failure class, a
// status ("503"), a class of statuses ("5xx"), a gRPC status ("grpc_aborted") or
// dependency_overloaded. Its error says which words there are.
func (s *Set) Add(word string) error {
	if word == dependencyOverloaded {
		for _, status := range overloadedStatuses {
			s.addStatus(status)
		}
		return nil
	}
	if c, ok := ParseClass(word); ok {
		s.classes |= 1 << c
		return nil
	}
	if g, ok := ParseGRPC(word); ok {
		s.grpc |= 1 << g
		return nil
	}
	if lo, hi, ok := parseStatuses(word); ok {
		for status := lo; status <= hi; status++ {
			s.addStatus(status)
		}
		return nil
	}
	return fmt.Errorf("%q is no condition: want a status (%d to %d), 1xx to 5xx, %s, a failure class (%s) or a gRPC status (%s)",
		word, minStatus, maxStatus, dependencyOverloaded, strings.Join(classNames[1:], ", "), strings.Join(grpcNames[1:], ", "))
}

// Conditions returns the words that Add knows, but for single statuses.
func Conditions() []string {
	words := append([]string(nil), classNames[1:]...)
	words = append(words, grpcNames[1:]...)
	return append(words, dependencyOverloaded, "1xx", "2xx", "3xx", "4xx", "5xx")
}

// parseStatuses reads "503" and "5xx" as a range of statuses.
func parseStatuses(word string) (lo, hi int, ok bool) {
	if len(word) != 3 || word[0] < '1' || word[0] > '9' {
		return 0, 0, false
	}
	hundred := int(word[0]-'0') * 100
	if word[1:] == "xx" {
		return hundred, hundred + 99, hundred <= 500
	}
	if !isDigit(word[1]) || !isDigit(word[2]) {
		return 0, 0, false
	}
	status := hundred + int(word[1]-'0')*10 + int(word[2]-'0')
	return status, status, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *Set) addStatus(status int) {
	i := status - minStatus
	s.statuses[i/64] |= 1 << (i % 64)
}

// HasClass reports whether the set lists the failure class.
func (s Set) HasClass(c Class) bool { return s.hasClass(c) }

// hasClass and hasStatus are the same without the copy of the set.
func (s *Set) hasClass(c Class) bool { return s.classes&(1<<c) != 0 }

// HasGRPC reports whether the set lists the gRPC status.
func (s Set) HasGRPC(g GRPC) bool { return s.hasGRPC(g) }

func (s *Set) hasGRPC(g GRPC) bool { return s.grpc&(1<<g) != 0 }

// HasStatus reports whether the set lists the status; one outside of 100 to
// 999 is in no set.
func (s Set) HasStatus(status int) bool { return s.hasStatus(status) }

func (s *Set) hasStatus(status int) bool {
	i := status - minStatus
	return i >= 0 && status <= maxStatus && s.statuses[i/64]&(1<<(i%64)) != 0
}

// hasHundred reports whether the set lists every status that shares the
// status's first digit.
func (s *Set) hasHundred(status int) bool {
	lo := status / 100 * 100
	for i := lo; i < lo+100; i++ {
		if !s.hasStatus(i) {
			return false
		}
	}
	return true
}

// Words returns the conditions in a canonical order and spelling: the failure
// classes as the table has them, gRPC statuses by their codes, then statuses
// upwards, whole hundreds as one.
func (s Set) Words() []string {
	var words []string
	for _, c := range Classes() {
		if s.HasClass(c) {
			words = append(words, c.String())
		}
	}
	for _, g := range GRPCStatuses() {
		if s.HasGRPC(g) {
			words = append(words, g.String())
		}
	}
	for status := minStatus; status <= maxStatus; status++ {
		switch {
		case status%100 == 0 && status < 600 && s.hasHundred(status):
			words = append(words, fmt.Sprintf("%dxx", status/100))
			status += 99
		case s.hasStatus(status):
			words = append(words, fmt.Sprint(status))
		}
	}
	return words
}
