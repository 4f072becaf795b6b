package proxy

import (
	"strconv"

	"mulligan/proxy/h1"
)

// maxForwards reads Max-Forwards, which a proxy must mind in OPTIONS and TRACE
// requests only (RFC 9110 7.6.2). What is no number is passed on as it is.
func maxForwards(req *h1.Request) (n int64, ok bool) {
	if req.Method != "OPTIONS" && req.Method != "TRACE" {
		return 0, false
	}
	v := req.Header.GetKnown(h1.NameMaxForwards)
	if len(v) == 0 || v[0] == '+' || v[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}

// answerHere answers an OPTIONS or TRACE whose Max-Forwards says that this is
// the last hop. What TRACE sends back leaves out fields that may hold secrets
// (RFC 9110 9.3.8).
func (c *clientConn) answerHere(req *h1.Request) {
	if req.Framing != h1.NoBody {
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
	if req.Method == "TRACE" {
		sc.FieldString("Content-Type", "message/http")
	}
	if !req.KeepAlive {
		c.closing = true
		sc.FieldString("Connection", "close")
	}
	sc.EndHead(h1.Length, int64(len(echo)))
	if sc.FinishWith(echo, nil) != nil {
		c.closing = true
	}
}

func secret(f *h1.Field) bool {
	return f.Known() == h1.NameAuthorization || f.Known() == h1.NameProxyAuthorization || equalFold(f.Name, "cookie")
}
