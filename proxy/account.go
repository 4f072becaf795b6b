package proxy

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"mulligan/metrics"
	"mulligan/policy"
)

// noteAttempt counts an attempt that has ended.
func (x *exchange) noteAttempt(r result, d policy.Decision) {
	took := x.took()
	x.up.metrics.AttemptSeconds.Observe(took.Seconds())
	if len(x.places) > 1 && r.outcome.Status != 429 { // which says nothing of how fast the endpoint is: its hint holds back
		x.noteLatency(took, x.route.Retry.Mark(r.outcome, x.slow) == policy.Bad)
	}
	if x.up.p95 && r.outcome.Class == policy.ClassNone && d.Verdict != policy.Retryable {
		x.auth.recent.Add(took)
	}
	result := ""
	x.lastClass = r.outcome.Class.String()
	if r.outcome.Class != policy.ClassNone {
		result = r.outcome.Class.String()
		x.count.AttemptClass(result)
	} else if !x.connect { // an open tunnel is no answer
		x.count.AttemptStatus(r.outcome.Status)
	}
	if result == "" {
		result = r.outcome.GRPC.String() // its HTTP status says nothing of what failed
	}
	x.log.attempt(x, r.outcome.Status, result, took, d)
}

// took is how long the attempt took.
func (x *exchange) took() time.Duration {
	if x.lasted > 0 {
		return x.lasted
	}
	return time.Since(x.attemptAt)
}

// noteLatency lets the choice between endpoints know how long an attempt took. That
// one failed weighs only where no circuit breaker sees to that, which needs its
// attempts; but it must not look fast for it.
func (x *exchange) noteLatency(took time.Duration, failed bool) {
	now := x.attemptAt.Add(took)
	if failed && x.auth.circuit() != nil {
		if took < x.auth.latency.Value(now, 1) {
			return
		}
		failed = false
	}
	x.auth.latency.Observe(took, failed, now)
}

// noteCancelled counts an attempt that ended because the client left: the
// upstream saw it, so that it is one, but it has no verdict.
func (x *exchange) noteCancelled() {
	took := x.took()
	x.up.metrics.AttemptSeconds.Observe(took.Seconds())
	x.count.AttemptClass("cancelled")
	x.log.attempt(x, 0, "cancelled", took, policy.Decision{})
}

// account counts the request, once. Its line in the access log is written when
// the client has its answer (logEnd): whoever reads the log may be slow.
func (x *exchange) account(r result, d policy.Decision) {
	if x.accounted {
		return
	}
	x.accounted = true
	x.leaveFlight()
	took := time.Since(x.began)
	if !x.connect {
		x.up.metrics.RequestSeconds.Observe(took.Seconds())
	}
	if r.cancelled && x.wrote {
		x.noteCancelled()
	}
	outcome := x.outcome(d)
	if !x.connect { // mulligan_tunnels_total counts those
		x.count.Request(outcome)
	}
	if d.Verdict == policy.Retryable {
		x.count.Denied(d.Stop.String())
	}
	x.log.took, x.log.outcome, x.log.stop, x.log.failed = took, outcome, d.Stop, d.Verdict == policy.Retryable
	if x.resp == nil && x.tunnel == nil && d.Stop != policy.ClientGone {
		x.log.fault = r.fault
	}
}

// logEnd writes the request's line into the access log.
func (x *exchange) logEnd() {
	if x.accounted && x.snap.settings.AccessLog {
		x.log.write(x)
	}
}

func (x *exchange) outcome(d policy.Decision) metrics.Outcome {
	switch {
	case d.Stop == policy.ClientGone || x.lost:
		return metrics.ClientGone
	case d.Verdict == policy.Retryable:
		return metrics.Failed
	case d.Verdict == policy.PermanentFailure:
		return metrics.Permanent
	case x.session.Attempts() > 1 && !x.first:
		return metrics.SuccessAfterRetry
	}
	return metrics.Success
}

// record is what the access log says of a request: nothing that a client wrote
// but method, host and path. Query values and header fields never get here.
type record struct {
	attempts []attemptRecord
	status   int // of the last attempt's response, or of our own answer
	answered int // of our own answer to a client that gave up its body
	brokeOff bool
	took     time.Duration
	outcome  metrics.Outcome
	stop     policy.Stop
	failed   bool  // by a failure that policy would retry
	fault    fault // why there was no response, where there was none
}

type attemptRecord struct {
	status int
	class  string
	took   time.Duration
	wait   time.Duration
	retry  bool
}

func (l *record) reset() { *l = record{attempts: l.attempts[:0]} }

func (l *record) attempt(x *exchange, status int, class string, took time.Duration, d policy.Decision) {
	if x.snap.settings.AccessLog {
		l.attempts = append(l.attempts, attemptRecord{status, class, took, d.Wait, d.Retry})
	}
	l.status = status
}

// waited corrects the wait after the last attempt: it was cut short.
func (l *record) waited(d time.Duration) {
	if n := len(l.attempts); n > 0 {
		l.attempts[n-1].wait = d
	}
}

// LogValue lists the attempts: result, time, and the wait after it.
func (l record) LogValue() slog.Value {
	groups := make([]slog.Attr, 0, len(l.attempts))
	for i, a := range l.attempts {
		attrs := make([]slog.Attr, 0, 3)
		if a.class != "" {
			attrs = append(attrs, slog.String("result", a.class))
		} else {
			attrs = append(attrs, slog.Int("result", a.status))
		}
		attrs = append(attrs, slog.Duration("took", a.took))
		if a.retry {
			attrs = append(attrs, slog.Duration("wait", a.wait))
		}
		groups = append(groups, slog.Attr{Key: strconv.Itoa(i + 1), Value: slog.GroupValue(attrs...)})
	}
	return slog.GroupValue(groups...)
}

// write writes the request's line. One that failed, for whatever reason but the
// upstream's own answer, is a warning.
func (l *record) write(x *exchange) {
	if l.answered != 0 {
		l.status = l.answered
	}
	level := slog.LevelInfo
	if l.failed || l.fault.kind != "" {
		level = slog.LevelWarn
	}
	if !x.s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("upstream", x.up.Name),
		slog.String("route", x.route.Name),
		slog.String("method", x.req.Method),
		slog.String("host", hostport(x.to.host, x.to.port)),
		slog.String("path", string(withoutQuery(x.to.path))),
		slog.Int("status", l.status),
		slog.String("stop", l.stop.String()),
		slog.String("outcome", l.outcome.String()),
		slog.Duration("took", l.took),
		slog.Any("attempts", *l),
	}
	if l.fault.kind != "" {
		attrs = append(attrs, slog.String("error", l.fault.kind), slog.String("detail", l.fault.detail))
	}
	if l.brokeOff {
		attrs = append(attrs, slog.Bool("broke_off", true))
	}
	x.s.log.LogAttrs(context.Background(), level, "request", attrs...)
}

// logRefused writes the line of a request that reached no upstream.
func (c *clientConn) logRefused(r reply) {
	snap := c.s.snap.Load()
	if !snap.settings.AccessLog {
		return
	}
	c.s.log.LogAttrs(context.Background(), slog.LevelInfo, "refused",
		slog.Int("status", r.status), slog.String("error", r.kind), slog.String("detail", r.detail), slog.String("client", c.remote.String()))
}
