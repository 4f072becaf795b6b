// Package h2 is HTTP/2 on the wire (RFC 9113), for both sides of a proxy, in the
// shapes of package h1: a ServerStream is read and answered like an
// h1.ServerConn, a ClientStream is written and read like an h1.ClientConn. What
// an HTTP/2 connection has beyond that is a ServerConn, which calls a handler
// for each stream, and a ClientConn, on which streams are opened.
//
// It exists beside the server and the transport of x/net/http2 because a
// retrying proxy must know by frame what happened: that a stream was refused
// (REFUSED_STREAM, or a GOAWAY that does not cover it), reset and with which
// code, or that no byte of it was handed to the kernel. Every error says so by
// its h1.Kind. Frames and HPACK are read with that module's Framer and hpack.
//
//	ServerConn / ClientConn
//	  reader goroutine:  net.Conn ─► frames ─► streams' heads and bodies ─► NextBody
//	  writer goroutine:  Body ─► streams with something to say, in turns ─► net.Conn
//
// # Locks
//
// One mutex for each connection guards its streams, its windows and what waits
// to be written. It is never held while the network is waited for: the writer
// copies what goes out next into a buffer of its own. So an interrupted stream
// returns at once, and what is on the wire stays a row of whole frames.
//
// # Flow control
//
// A stream may have a fixed number of bytes under way; the connection's window
// has room for all streams together. So a stream that nobody reads holds up
// itself and no other. Bytes are credited when the consumer took them.
//
// # Concurrency
//
// One goroutine may read from a stream while another writes to it. The methods
// that control it (Interrupt, Close, Progress, Writing and their like) may be
// called from anywhere, and so may the methods of connections.
package h2
