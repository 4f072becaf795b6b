package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
)

// listenerTLS is how TLS is spoken on a listener; nil: not at all. HTTP/2 is for
// servers' clients: on the proxy port, which is called like a proxy, it is not
// offered.
func (s *Server) listenerTLS(configured string) *tls.Config {
	if s.opts.ListenerTLS == nil {
		return nil
	}
	config := s.opts.ListenerTLS(configured)
	if config == nil {
		return nil
	}
	config = config.Clone()
	protocols := []string{alpnHTTP1}
	if configured != s.opts.Proxy {
		protocols = []string{alpnHTTP2, alpnHTTP1}
	}
	for _, p := range config.NextProtos { // those of ACME's challenges
		if !slices.Contains(protocols, p) && p != alpnHTTP2 {
			protocols = append(protocols, p)
		}
	}
	config.NextProtos = protocols
	return config
}

// serveSecure takes requests on a connection to a listener with TLS.
func (c *clientConn) serveSecure(config *tls.Config) {
	t := tls.Server(c.wire.NetConn(), config)
	if err := handshake(context.Background(), t); err != nil {
		c.noteInsecure(err)
		c.close()
		return
	}
	if p := t.ConnectionState().NegotiatedProtocol; p != "" && p != alpnHTTP1 && p != alpnHTTP2 {
		t.Close() // the handshake was a challenge's, and all of it
		return
	}
	c.secure = true
	if t.ConnectionState().NegotiatedProtocol == alpnHTTP2 {
		defer c.close()
		c.serveShared(t)
		return
	}
	c.useTLS(t)
	c.serve()
}

// noteInsecure tells of a handshake that failed. A client that speaks plain HTTP
// is told so, in plain HTTP.
func (c *clientConn) noteInsecure(err error) {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && isText(record.RecordHeader[:]) {
		c.closing, c.linger = true, true
		c.replyError(reply{status: 400, kind: "http_request_error", detail: "this port speaks TLS: its address begins with https://"})
	}
	c.s.log.Debug("no TLS with a client", slog.String("listen", c.listen), slog.String("client", c.remote.String()), slog.Any("error", err))
}

// isText reports whether what should be the header of a TLS record is the
// beginning of a request line.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
