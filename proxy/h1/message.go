package h1

// Framing says how the end of a body is known (RFC 9112 section 6.3).
type Framing uint8

// The framings of a body.
const (
	NoBody     Framing = iota // there is none, whatever the fields say
	Length                    // Content-Length bytes
	Chunked                   // until the last chunk
	UntilClose                // until the connection is closed; responses only
)

// Request is the head of a request. It belongs to its ServerConn: Target and
// Header are slices of the connection's buffer and live until the next
// ReadRequest or Release.
type Request struct {
	Method  string
	Target  []byte // as it was written
	Minor   int    // of the HTTP version: 0 or 1
	HTTP2   bool   // it came over HTTP/2: what follows is said in the words of HTTP/1.1
	Header  Header
	Framing Framing // NoBody where there is neither a length nor chunks

	ContentLength  int64  // -1: chunked; 0 where there is no body
	KeepAlive      bool   // the client lets the connection persist
	ExpectContinue bool   // it waits for a 100 before it sends the body
	Upgrade        bool   // it asks for another protocol
	Trailer        Header // known at the end of the body
}

// Response is the head of a response. It belongs to its ClientConn: Reason and
// Header are slices of the connection's buffer and live until the next
// ReadResponse or Start.
type Response struct {
	Status  int
	Reason  []byte // may be empty
	Minor   int
	HTTP2   bool // as in Request
	Header  Header
	Framing Framing

	ContentLength int64 // -1: not said, or not to be told on; what a bodiless answer to HEAD says too
	KeepAlive     bool
	Trailer       Header

	unsure bool // it has no body, but what it says of one makes no sense
}
