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
               a field of that answer, such as Retry-After; may be repeated
  --failure C  the attempt ends with this failure class, such as connection_reset

URL is what the client asks for: http://api.example.com/v1/things as through
HTTP_PROXY, or a URL of mulligan's own ports where there is a mount or a listen.
With -X CONNECT it is the host:port that the tunnel goes to.
`

// question is what somebody wants to have explained.
type question struct {
	cfg      *config.Config
	settings *proxy.Settings
	method   string
	url      string
	target   proxy.Target
	header   h1.Header // of the request
	asked    proxy.Asked
	outcome  policy.Outcome // of each attempt; where given
	given    bool           // an outcome was
	response h1.Header
	now      time.Time // what dates in the response are compared with
}

func runExplain(t terminal, args []string) error {
	f := newFlags("explain", explainUsage)
	find := configFlag(f, t)
	q := &question{now: time.Now()}
	f.StringVar(&q.method, "X", "GET", "")
	f.Func("H", "", fieldInto(&q.header))
	f.Func("response-header", "", fieldInto(&q.response))
	status, class := f.String("status", "", ""), f.String("failure", "", "")
	others, err := f.parse(t, args, 1)
	if err != nil {
		return err
	}
	if len(others) == 0 {
		return misuse("such as: mulligan explain --status 503 http://api.example.com/v1/things", "explain needs a URL")
	}
	if err := q.read(others[0], *status, *class); err != nil {
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
	q.answer(&sheet{t.out})
	return nil
}

// fieldInto reads the argument of -H into a header.
func fieldInto(h *h1.Header) func(string) error {
	return func(s string) error {
		name, value, ok := strings.Cut(s, ":")
		if !ok || strings.Trim(name, " \t") != name || name == "" {
			return fmt.Errorf("want 'Name: value', not %q", s)
		}
		*h = append(*h, h1.Field{Name: []byte(name), Value: []byte(strings.Trim(value, " \t"))})
		return nil
	}
}

// read reads what stands in the command line beside the configuration.
func (q *question) read(url, status, class string) (err error) {
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
	if q.target.HTTPS {
		return q.readOutcome(status, class) // its header is inside the tunnel
	}
	if q.asked, err = proxy.ReadAsked(q.header); err != nil {
		return misuse("a client that sends it gets 400", "%s", err)
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
	var wire *h1.Error
	if _, err := h1.NewServerConn(ours, h1.Limits{}).ReadRequest(); errors.As(err, &wire) {
		return misuse(fmt.Sprintf("a client that sends it gets %d", wire.Status), "%s", wire.Reason)
	}
	return nil
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

// readOutcome reads --status and --failure.
func (q *question) readOutcome(status, class string) error {
	switch {
	case status != "" && class != "":
		return misuse("an attempt ends with a status or with a failure class", "--status and --failure exclude each other")
	case class != "":
		return q.readClass(class)
	case status != "":
		return q.readStatus(status)
	case len(q.response) > 0:
		return misuse("add --status, such as --status 503", "--response-header needs the status of the response")
	}
	return nil
}

func (q *question) readClass(word string) error {
	c, ok := policy.ParseClass(word)
	if ok {
		if len(q.response) > 0 {
			return misuse("use --status for a response that arrived", "--failure %s leaves no response with a header", word)
		}
		q.outcome, q.given = policy.Outcome{Class: c}, true
		return nil
	}
	hint := "it is one of " + strings.Join(classNames(), ", ")
	if _, err := strconv.Atoi(word); err == nil {
		hint = "for a status write --status " + word
	} else if near := config.Nearest(word, classNames()); near != "" {
		hint = "did you mean " + near + "?"
	}
	return misuse(hint, "there is no failure class %q", word)
}

// classNames are the classes that this version can meet.
func classNames() []string {
	var names []string
	for _, c := range policy.Classes() {
		if proxy.Unmet(c) == "" {
			names = append(names, c.String())
		}
	}
	return names
}

func (q *question) readStatus(word string) error {
	status, err := strconv.Atoi(word)
	switch {
	case err != nil:
		hint := "write a number such as 503"
		if near := config.Nearest(word, classNames()); near != "" {
			hint = "for a failure class write --failure " + near
		}
		return misuse(hint, "%q is no status", word)
	case status < 100 || status > 599:
		return misuse("a status has three digits, such as 503", "--status is %d, and must be 100 to 599", status)
	}
	q.outcome, q.given = policy.Outcome{Status: status}, true
	return nil
}

// contentLength is the length of the request's body, where a field gives it.
func (q *question) contentLength() (int64, bool) {
	n, err := strconv.ParseInt(string(q.header.Get("Content-Length")), 10, 64)
	return n, err == nil && n >= 0
}

// answer writes everything that is to be said.
func (q *question) answer(r *sheet) {
	r.text("%s %s", q.method, q.url)
	r.text("")
	p := q.place()
	q.describe(r, p)
	if p.refused != "" {
		return
	}
	r.text("")
	if q.given {
		q.explainOutcome(r, p)
	} else {
		q.explainAll(r, p)
	}
}

// forbidden returns why the place may not be dialled, as far as that shows
// without asking for names.
func (q *question) forbidden(host string, port int, endpoint bool) string {
	own := proxy.Listeners{Proxy: q.cfg.Proxy, Others: []string{q.cfg.Admin}}
	for _, u := range q.cfg.Upstreams {
		if u.Listen != "" {
			own.Others = append(own.Others, u.Listen)
		}
	}
	if why := q.settings.Forbids(host, port, endpoint, own); why != "" {
		return "403, class denied: " + why
	}
	return ""
}
