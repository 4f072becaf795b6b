// Package h1 is HTTP/1.1 on the wire, for both sides of a proxy: it reads
// requests from clients and writes responses to them (ServerConn), writes
// requests to upstreams and reads their responses (ClientConn), and keeps idle
// upstream connections (Pool).
//
// It exists beside net/http because a retrying proxy must know what happened on
// the wire: whether a byte of a request was handed to the kernel, whether a
// byte of the answer came back, whether a body ended or broke off. Every error
// says so by its Kind. Nothing in here retries, decides or measures.
//
//	client ──bytes──► reader ─► Request ─ ReadBody ──┐        proxy decides
//	(ServerConn)                                     ▼
//	       ◄──bytes── Writer ◄─ StatusLine Field Body ...
//	                                                          Pool.Get
//	       ◄──bytes── reader ─► Response ─ ReadBody          (ClientConn)
//	       ──bytes──► Writer ◄─ RequestLine Field Body ... ──► upstream
//
// # Reading
//
// A head is parsed in place: names and values are slices of the connection's
// read buffer, in their order and case. Requests are read strictly: what could
// be understood in two ways is refused (RFC 9112 sections 2.2, 5, 6.1, 6.3,
// 11.2). Responses are read as leniently as the RFC permits, but for their
// framing. A connection that waits for its next message holds no buffer.
//
// # Writing
//
// A head and a small body go out in one write; large pieces of a body are never
// copied. Whoever writes says when to Flush.
//
// # Concurrency
//
// One goroutine may read from a connection while another writes to it.
// Interrupt, PeerGone, State, Progress and Close may be called from anywhere.
package h1
