package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"mulligan/proxy/h1"
)

// maxForwards reads the value of a Max-Forwards field, which a proxy must mind in OPTIONS and TRACE
// requests only (RFC 9110 7.6.2). What is no number is passed on as it is.
func maxForwards(req *h1.Request, value []byte) (n int64, ok bool) {
	if req.Method != "OPTIONS" && req.Method != "TRACE" || len(value) == 0 || value[0] == '+' || value[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return n, true // the most that is supported
	}
	return n, err == nil
}

// lastHop reports whether Max-Forwards says that the request goes no further.
func lastHop(req *h1.Request) bool {
	if req.Method != "OPTIONS" && req.Method != "TRACE" {
		return false
	}
	for i := range req.Header {
		if f := &req.Header[i]; f.Known() == h1.NameMaxForwards {
			if n, ok := maxForwards(req, f.Value); ok && n == 0 {
				return true
			}
		}
	}
	return false
}

// answerHere answers an OPTIONS or TRACE whose Max-Forwards says that this is
// the last hop. What TRACE sends back leaves out fields that may hold secrets
// (RFC 9110 9.3.8).
func (c *clientConn) answerHere(req *h1.Request) {
	if req.ContentLength != 0 {
		c.deny(reply{status: 400, kind: "http_request_error", detail: "OPTIONS or TRACE with Max-Forwards: 0 and a body"})
		return
	}
	var echo []byte
	if req.Method == "TRACE" {
		echo = append(append(append(echo, "TRACE "...), req.Target...), " HTTP/1.1\r\n"...)
		for i := range req.Header {
			f := &req.Header[i]
			if secret(f) {
				continue
			}
			echo = append(append(append(append(echo, f.Name...), ": "...), f.Value...), "\r\n"...)
		}
		echo = append(echo, "\r\n"...)
	}
	sc := c.sc
	sc.StatusLine(1, 200, []byte("OK"))
	sc.FieldString("Date", time.Now().UTC().Format(http.TimeFormat))
	if req.Method == "TRACE" {
		sc.FieldString("Content-Type", "message/http")
	}
	if !req.KeepAlive {
		c.closing = true
		sc.FieldString("Connection", "close")
	}
	sc.EndHead(h1.Length, int64(len(echo)))
	c.watch.moving(nil) // a client that does not read is given up
	defer c.watch.rested()
	if sc.FinishWith(echo, nil) != nil {
		c.closing = true
	}
}

func secret(f *h1.Field) bool {
	return f.Known() == h1.NameAuthorization || f.Known() == h1.NameProxyAuthorization || equalFold(f.Name, "cookie")
}
