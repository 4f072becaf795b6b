package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"mulligan/policy"
	"mulligan/proxy/h1"
)

// reply is an answer that mulligan gives by itself: application/problem+json
// (RFC 9457), with the reason in Proxy-Status (RFC 9209).
type reply struct {
	status   int
	kind     string // the RFC 9209 error type
	detail   string
	attempts int
	stop     policy.Stop // zero: permanent
	received int         // the status of a response that broke off; 0 = none
	field    [2]string   // one more header field, where its name is not ""
}

// problem is the body of a reply.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Attempts int    `json:"attempts"`
	Stop     string `json:"stop"`
	Error    string `json:"error"`
}

// replyFault answers for an attempt that got no response.
func (x *exchange) replyFault(f fault, d policy.Decision) {
	x.body.stopPump(x.uc)
	attempts := x.session.Attempts()
	detail := "upstream " + strconv.Quote(x.up.Name) + ", route " + strconv.Quote(x.route.Name) + ": "
	if attempts > 0 { // else there never was a free connection
		detail += "attempt " + strconv.Itoa(attempts) + " of at most " + strconv.Itoa(x.session.MaxAttempts()) + ": "
	}
	detail += f.detail
	if !x.body.done.Load() || x.connect && len(x.c.wire.Buffered()) > 0 { // those bytes were for the tunnel
		x.c.closing, x.c.linger = true, true
	}
	r := reply{status: f.status, kind: f.kind, detail: detail, attempts: attempts, stop: d.Stop, received: f.received}
	if f.retryAfter > 0 {
		r.field = [2]string{"Retry-After", strconv.FormatInt(int64((f.retryAfter+time.Second-1)/time.Second), 10)}
	}
	x.c.replyError(r)
}

// replyError sends a reply. The connection goes on only where the request was
// read to its end and everybody wants it to.
func (c *clientConn) replyError(r reply) {
	if r.stop == policy.Going {
		r.stop = policy.Permanent
	}
	if c.x.up == nil {
		c.logRefused(r)
	}
	body, err := json.Marshal(problem{"about:blank", http.StatusText(r.status), r.status, r.detail, r.attempts, r.stop.String(), r.kind})
	if err != nil {
		body = nil // cannot be: strings and numbers only
	}
	body = append(body, '\n')
	sc := c.sc
	sc.StatusLine(1, r.status, []byte(http.StatusText(r.status)))
	sc.FieldString("Date", time.Now().UTC().Format(http.TimeFormat))
	sc.FieldString("Content-Type", "application/problem+json")
	sc.FieldInt("Content-Length", int64(len(body)))
	if r.field[0] != "" {
		sc.FieldString(r.field[0], r.field[1])
	}
	sc.FieldString("Proxy-Status", proxyStatus(r.attempts, r.stop, r.received, r.kind))
	req := c.x.req
	if req == nil || !req.KeepAlive || c.s.draining() {
		c.closing = true
	}
	if c.closing {
		sc.FieldString("Connection", "close")
	} else if req.Minor == 0 {
		sc.FieldString("Connection", "keep-alive")
	}
	if req != nil && req.Method == "HEAD" {
		sc.EndHead(h1.NoBody, 0)
		body = nil
	} else {
		sc.EndHead(h1.Length, int64(len(body)))
	}
	c.watch.moving(nil) // a client that does not read is given up
	defer c.watch.rested()
	if err := sc.FinishWith(body, nil); err != nil {
		c.closing = true
	}
}

// proxyStatus writes the Proxy-Status member of this proxy.
func proxyStatus(attempts int, stop policy.Stop, received int, kind string) string {
	b := make([]byte, 0, 96)
	b = append(b, "mulligan; attempts="...)
	b = strconv.AppendInt(b, int64(attempts), 10)
	b = append(b, "; stop="...)
	b = append(b, stop.String()...)
	if received != 0 {
		b = append(b, "; received-status="...)
		b = strconv.AppendInt(b, int64(received), 10)
	}
	if kind != "" {
		b = append(b, "; error="...)
		b = append(b, kind...)
	}
	return string(b)
}

// proxyStatus is the member for the response in hand; "" for a success at the
// first attempt.
func (x *exchange) proxyStatus(r result, d policy.Decision) string {
	attempts := x.session.Attempts()
	if d.Stop == policy.Success && (attempts <= 1 || x.first) && x.resp.Status < 400 {
		return ""
	}
	return proxyStatus(attempts, d.Stop, x.resp.Status, r.fault.kind)
}
