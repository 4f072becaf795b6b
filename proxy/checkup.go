package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// checkAgent is the User-Agent of health checks, by which an upstream's log tells
// them from requests.
const checkAgent = "mulligan-health-check"

// statusError is a check's answer that is no sign of health.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("answered with %d", int(e)) }

// errCheckPanic is a fault of ours, which says nothing of the endpoint.
var errCheckPanic = errors.New("the check itself failed")

// look makes one check of an endpoint: a GET on a connection of its own, HTTP/2 where
// the server chooses that. The error says why it is not well: no answer in time, or
// none from 200 to 399.
func (s *Server) look(ctx context.Context, how *checkWay, e *policy.Endpoint) (failure error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.logPanic(fault)
			failure = errCheckPanic
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, how.Timeout)
	defer cancel()
	dial := func(ctx context.Context) (net.Conn, error) { return s.dial(ctx, how.peer) }
	own := newLinks(dial, how.peer.tls != nil, h1.PoolConfig{})
	defer own.Close()
	uc, _, err := own.Get(func() context.Context { return ctx }, wanted{})
	if err != nil {
		return err
	}
	defer own.Discard(uc)
	defer context.AfterFunc(ctx, uc.Interrupt)()
	status, err := s.ask(uc, how, e)
	switch {
	case err != nil:
		return err
	case status < 200 || status > 399:
		return statusError(status)
	}
	return nil
}

// ask sends a check's request, and returns the status of the answer.
func (s *Server) ask(uc upstreamSide, how *checkWay, e *policy.Endpoint) (int, error) {
	target := e.Path + how.Path
	absolute := how.peer.parent != nil && how.peer.plain
	if absolute {
		target = "http://" + how.peer.addr() + target
	}
	uc.Start()
	uc.RequestLine("GET", []byte(target))
	uc.FieldString("Host", endpointAuthority(e.Scheme, e.Host, e.Port))
	uc.FieldString("User-Agent", checkAgent)
	if absolute {
		if auth := parentAuth(how.peer.parent); auth != "" {
			uc.FieldString("Proxy-Authorization", auth)
		}
	}
	uc.FieldString("Via", s.via[1]) // so that another mulligan does not try it more than once
	if !isStream(uc) {
		uc.FieldString("Connection", "close")
	}
	uc.EndHead(h1.NoBody, 0)
	resp, err := uc.FinishAndReadResponse(nil, nil, "GET")
	for err == nil && resp.Status < 200 && resp.Status != 101 {
		resp, err = uc.ReadResponse("GET")
	}
	if err != nil {
		return 0, err
	}
	return resp.Status, nil
}

// whyUnwell says for people why a check failed.
func whyUnwell(failure error) string {
	var status statusError
	switch {
	case errors.As(failure, &status):
		return status.Error()
	case h1.KindOf(failure) == h1.Interrupted:
		return timeoutFault.detail
	}
	return faultOf(failure).detail
}
