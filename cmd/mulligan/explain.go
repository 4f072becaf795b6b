package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"mulligan/policy"
	"mulligan/policy/config"
	"mulligan/proxy"
	"mulligan/proxy/h1"
)

const explainUsage = `Usage: mulligan explain [FLAGS] URL

Says what would become of a request: which upstream and route it belongs to,
where it goes, whether a failure is retried and why, and when each attempt comes.
Nothing is sent. Without --status and --failure it says so of every failure.

` + configUsage + `  -X METHOD    the method (GET)
  -H 'K: V'    a field of the request, such as Idempotency-Key; may be repeated
  --status N   the upstream answers with this status
  --response-header 'K: V'
               a field of that answer, such as Retry-After; may be repeated.
               'grpc-status: 14' is a gRPC call that failed so, with status 200
  --response-body JSON
               the body of that answer, for rules that look into it
  --failure C  the attempt ends with this failure class, such as connection_reset;
               with truncated, --status is that of the response that broke off

URL is what the client asks for: http://api.example.com/v1/things as through
HTTP_PROXY, or a URL of mulligan's own ports where there is a mount or a listen.
https:// is as through HTTPS_PROXY: a tunnel, which mulligan looks into only where
the upstream has tls.intercept. With -X CONNECT it is the tunnel's host:port.
`

// question is what somebody wants to have explained.
type question struct {
	cfg      *config.Config
	settings *proxy.Settings
	method   string
	url      string
	target   proxy.Target
	header   h1.Header   // of the request
	head     *h1.Request // the same, as the proxy's reader reads it
	asked    proxy.Asked
	outcome  policy.Outcome // of each attempt; where given
	given    bool           // an outcome was
	response h1.Header
	body     *string   // of the response; nil: not given
	now      time.Time // what dates in the response are compared with
}

func runExplain(t terminal, args []string) error {
	f := newFlags("explain", explainUsage)
	find := configFlag(f, t)
	q := &question{now: time.Now()}
	f.StringVar(&q.method, "X", "GET", "")
	f.Func("H", "", fieldInto(&q.header))
	f.Func("response-header", "", fieldInto(&q.response))
	status, class, body := textFlag(f, "status"), textFlag(f, "failure"), textFlag(f, "response-body")
	others, err := f.parse(t, args, 1)
	if err != nil {
		return err
	}
	if len(others) == 0 {
		return misuse("such as: mulligan explain --status 503 http://api.example.com/v1/things", "explain needs a URL")
	}
	q.body = body()
	if err := q.read(others[0], status(), class()); err != nil {
		return err
	}
	src, err := find()
	if err != nil {
		return err
	}
	if q.cfg, err = src.load(); err != nil {
		return err
	}
	if q.settings, err = newSettings(q.cfg, q.cfg); err != nil {
		return err
	}
	p := q.place()
	if err := q.readAsked(p); err != nil {
		return err
	}
	q.answer(&sheet{t.out}, p)
	return nil
}

// readAsked reads what the client asks for, where mulligan sees it.
func (q *question) readAsked(p *place) (err error) {
	if p.tunnel && q.target.HTTPS {
		return nil // the request's header is inside
	}
	if q.asked, err = proxy.ReadAsked(q.header); err != nil {
		return misuse("a client that sends it gets 400", "%s", err)
	}
	return nil
}

// read reads what stands in the command line beside the configuration.
func (q *question) read(url string, status, class *string) error {
	q.url = url
	if q.method == "" || strings.ContainsAny(q.method, " \t\r\n") {
		return misuse("such as -X POST", "%q is no method", q.method)
	}
	if err := q.readTarget(); err != nil {
		return err
	}
	if err := q.wellFormed(); err != nil {
		return err
	}
	return q.readOutcome(status, class)
}

// wellFormed lets the proxy's own reader look at the request's head.
func (q *question) wellFormed() error {
	if at := strings.IndexAny(q.url, " #"); at >= 0 {
		return misuse("a client that sends it as it is gets 400; clients write %20, and leave out what follows #",
			"%q: a target has no %q in it", q.url, q.url[at])
	}
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\n", q.method, q.url)
	if !q.header.Has("Host") {
		head = append(head, "Host: localhost\r\n"...)
	}
	for _, f := range q.header {
		head = fmt.Appendf(head, "%s: %s\r\n", f.Name, f.Value)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		defer theirs.Close()
		_, _ = theirs.Write(append(head, "\r\n"...)) // the reader may have seen enough before its end
	}()
	req, err := h1.NewServerConn(ours, h1.Limits{}).ReadRequest()
	if wire := (*h1.Error)(nil); errors.As(err, &wire) {
		return misuse(fmt.Sprintf("a client that sends it gets %d", wire.Status), "%s", wire.Reason)
	}
	q.head = req
	return err
}

// readTarget reads the URL, or what CONNECT has in place of one.
func (q *question) readTarget() (err error) {
	if q.method == "CONNECT" {
		if q.target, err = proxy.ParseConnect(q.url); err != nil {
			return misuse("write "+q.connectHint(), "%q: %s", q.url, err)
		}
		return nil
	}
	if q.target, err = proxy.ParseTarget(q.url, q.method); err != nil {
		hint := "write the whole URL, such as http://api.example.com/v1/things"
		if _, again := proxy.ParseTarget("http://"+q.url, q.method); again == nil && !strings.Contains(q.url, "://") {
			hint = "write http://" + q.url
		}
		return misuse(hint, "%q: %s", q.url, err)
	}
	return nil
}

// connectHint is the host:port that was meant, as far as that can be seen.
func (q *question) connectHint() string {
	if t, err := proxy.ParseTarget(q.url, "GET"); err == nil {
		return net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
	if t, err := proxy.ParseTarget("https://"+q.url, "GET"); err == nil && !strings.Contains(q.url, "/") {
		return net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
	return "host:port, such as api.example.com:443"
}

// contentLength is the length of the request's body, where a field gives it.
func (q *question) contentLength() (int64, bool) {
	n, err := strconv.ParseInt(string(q.header.Get("Content-Length")), 10, 64)
	return n, err == nil && n >= 0
}

// answer writes everything that is to be said.
func (q *question) answer(r *sheet, p *place) {
	r.text("%s %s", q.method, q.url)
	r.text("")
	if p.unauthorized != "" {
		r.row("refused", "407: %s", p.unauthorized)
		r.text("")
		r.text("With the right credentials:")
		r.text("")
	}
	q.describe(r, p)
	if p.refused != "" || p.answered != "" {
		return
	}
	r.text("")
	if q.given {
		q.explainOutcome(r, p)
	} else {
		q.explainAll(r, p)
	}
}
