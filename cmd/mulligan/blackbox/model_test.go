package blackbox

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A model of sections 4 and 7, written anew from their sentences, against the
// binary: random policies, random outcomes, the same verdicts.

// end is how one scripted attempt ends: a status, or a class without one.
type end struct {
	status int
	class  string
	word   string // the upstream's own: "", "true" or "false"
}

// modelPolicy is the part of a policy that the model knows.
type modelPolicy struct {
	max              int
	retryOn, exclude []string
	methods          []string
	mode             string
}

var (
	defaultRetryOn = []string{"connect_failure", "refused_stream", "connection_reset", "timeout", "truncated", "error_event", "502", "503", "504"}
	defaultMethods = []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}
)

// listed reports whether a list of conditions names how the attempt ended.
func (e end) listed(list []string) bool {
	for _, word := range list {
		switch {
		case word == e.class && e.class != "":
			return true
		case e.class != "" || e.status == 0:
		case word == strconv.Itoa(e.status), word == fmt.Sprintf("%dxx", e.status/100):
			return true
		case word == "dependency_overloaded" && slices.Contains([]int{429, 503, 529}, e.status):
			return true
		}
	}
	return false
}

// retryable is what policy says of it, the method aside: do_not_retry_on, the
// upstream's own word, retry_on, in this order.
func (p modelPolicy) retryable(e end) bool {
	switch {
	case e.listed(p.exclude):
		return false
	case e.class == "" && e.status >= 400 && e.word != "":
		return e.word == "true"
	}
	return e.listed(p.retryOn)
}

// predict says what the client of a request gets: attempts, stop and status.
func (p modelPolicy) predict(method string, keyed bool, ends []end) (attempts int, stop string, status int) {
	for attempts = 1; ; attempts++ {
		e := ends[attempts-1]
		status = e.status
		if e.class != "" {
			status = 502
		}
		switch {
		case !p.retryable(e) && e.class == "" && e.status < 400:
			return attempts, "success", status
		case !p.retryable(e):
			return attempts, "permanent", status
		case !slices.Contains(p.methods, method) && !keyed:
			return attempts, "not_idempotent", status
		case attempts == p.max:
			return attempts, "max_attempts", status
		case p.mode != "on":
			return attempts, "disabled", status
		}
	}
}

func randomPolicy(rng *rand.Rand) modelPolicy {
	pick := func(lists ...[]string) []string { return lists[rng.IntN(len(lists))] }
	return modelPolicy{
		max: 1 + rng.IntN(5),
		retryOn: pick(defaultRetryOn, defaultRetryOn, []string{"503"}, []string{"5xx", "connection_reset"}, []string{"inherit", "429"},
			[]string{"dependency_overloaded"}, []string{"timeout", "truncated", "500", "4xx"}, []string{"inherit", "protocol_error"}),
		exclude: pick(nil, nil, []string{"503"}, []string{"5xx"}, []string{"truncated", "409"}, []string{"connection_reset"}),
		methods: pick(defaultMethods, defaultMethods, []string{"GET", "POST"}, []string{"PUT"}),
		mode:    []string{"on", "on", "on", "observe", "off"}[rng.IntN(5)],
	}
}

// yaml is the policy as configuration, and inherit spelled out for the model.
func (p *modelPolicy) yaml() string {
	text := fmt.Sprintf("mode: %s, max_attempts: %d, retry_on: [%s], do_not_retry_on: [%s], methods: [%s]",
		p.mode, p.max, strings.Join(p.retryOn, ", "), strings.Join(p.exclude, ", "), strings.Join(p.methods, ", "))
	if p.retryOn[0] == "inherit" {
		p.retryOn = append(slices.Clone(defaultRetryOn), p.retryOn[1:]...)
	}
	return text
}

func randomEnd(rng *rand.Rand) end {
	if rng.IntN(4) == 0 {
		return end{class: []string{"connection_reset", "truncated", "protocol_error"}[rng.IntN(3)]}
	}
	statuses := []int{200, 204, 301, 400, 404, 408, 409, 425, 429, 500, 501, 502, 503, 503, 503, 504, 505, 529, 599}
	return end{status: statuses[rng.IntN(len(statuses))], word: []string{"", "", "", "true", "false"}[rng.IntN(5)]}
}

// answer plays the end.
func (e end) answer() answer {
	switch {
	case e.class == "connection_reset":
		return fin
	case e.class == "truncated":
		return rawClose("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
	case e.class == "protocol_error":
		return rawClose("no HTTP\r\n\r\n")
	case e.status == 204:
		return raw("HTTP/1.1 204 No Content\r\n\r\n")
	case e.word != "":
		return text(e.status, "b", "x-should-retry: "+e.word)
	}
	return text(e.status, "b")
}

func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			policy := randomPolicy(rng)
			p := start(t, "log: {access: false}\ndefaults: {retry: {"+policy.yaml()+", "+quick+"}}")
			seen := 0
			for range 60 {
				method := []string{"GET", "GET", "PUT", "POST", "DELETE", "PATCH"}[rng.IntN(6)]
				keyed := rng.IntN(4) == 0
				var ends []end
				var script []answer
				for range policy.max {
					ends = append(ends, randomEnd(rng))
					script = append(script, ends[len(ends)-1].answer())
				}
				u := answers(t, script...)
				fields := []string{"X-Plain: yes"}
				if keyed {
					fields[0] = "Idempotency-Key: k"
				}
				r := p.do(method, u.url("/"), "", fields...)
				attempts, stop, status := policy.predict(method, keyed, ends)
				account := fmt.Sprintf("attempts=%d; stop=%s", attempts, stop)
				if stop == "success" && attempts == 1 {
					account = ""
				}
				r.expect(t, status, account)
				want(t, "attempts seen", u.count(), attempts)
				if seen += u.count(); t.Failed() {
					t.Fatalf("with %s %v (key: %v) and the policy %+v", method, ends, keyed, policy)
				}
			}
			p.wantMetric(float64(seen), "mulligan_attempts_total")
			p.wantMetric(60, "mulligan_requests_total")
		})
	}
}
