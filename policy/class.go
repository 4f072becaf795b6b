package policy

// Class says how an attempt ended where it did not end with a whole response, or
// with one whose first event is an error. The README's table has them.
// The zero value is ClassNone.
type Class uint8

// The failure classes. Where an attempt fails, the class is set by the code
// that saw it happen (dial, TLS, wire), never from an error's text.
const (
	ClassNone       Class = iota // a response header arrived and nothing broke
	ConnectFailure               // no connection; nothing was sent
	RefusedStream                // HTTP/2: the peer says it did not process the request
	ConnectionReset              // reset or closed before a response header
	Timeout                      // no response header (or rest of a held response) in time
	Truncated                    // the response broke off and none of it has gone to the client
	ErrorEvent                   // an event stream whose first event is an error, or that has none
	TLSFailure                   // bad certificate, wrong name, alert, no common version
	DNSNotFound                  // the name does not exist
	ProtocolError                // not HTTP, framing that cannot be trusted, header over the limit
	Denied                       // policy forbids the destination
	numClasses
)

var classNames = [numClasses]string{
	"", "connect_failure", "refused_stream", "connection_reset", "timeout", "truncated",
	"error_event", "tls_failure", "dns_not_found", "protocol_error", "denied",
}

// String returns the class's name as configuration, metrics and logs spell it;
// ClassNone is "".
func (c Class) String() string { return nameOf(classNames[:], int(c)) }

// ParseClass returns the failure class with this name.
func ParseClass(name string) (Class, bool) {
	if name == "" {
		return ClassNone, false
	}
	i, ok := indexOf(classNames[:], name)
	return Class(i), ok
}

// Classes returns every failure class, in the order above.
func Classes() []Class {
	all := make([]Class, 0, numClasses-1)
	for c := ClassNone + 1; c < numClasses; c++ {
		all = append(all, c)
	}
	return all
}

// NothingSent reports whether the class means that no byte of the request can
// have been processed, so that any method may be repeated.
func (c Class) NothingSent() bool { return c == ConnectFailure || c == RefusedStream }

// Never reports whether the class is never retried, listed or not: it will not
// heal by itself.
func (c Class) Never() bool { return c == TLSFailure || c == DNSNotFound || c == Denied }
