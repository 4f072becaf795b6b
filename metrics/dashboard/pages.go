package dashboard

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// index tells a person what this port has.
const index = `mulligan, admin port

/metrics   Prometheus metrics
/healthz   200 while the process is alive
/readyz    200 while new requests are welcome, 503 once draining
`

// pages are the pages by path. Paths match exactly: no cleaning, no redirects.
type pages map[string]http.Handler

// newPages returns every page of the admin port.
func newPages(o Options) pages {
	return pages{
		"/":        text(func() (int, string) { return http.StatusOK, index }),
		"/metrics": exposition(o.Registry),
		"/healthz": text(func() (int, string) { return http.StatusOK, "alive\n" }),
		"/readyz": text(func() (int, string) {
			if !o.Ready() {
				return http.StatusServiceUnavailable, "not ready\n"
			}
			return http.StatusOK, "ready\n"
		}),
	}
}

// ServeHTTP answers with the page of r's path, to methods that only read.
func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page, ok := p[r.URL.Path]
	switch {
	case !ok:
		http.Error(w, "There is no such page; / lists those there are.", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "This page can only be read.", http.StatusMethodNotAllowed)
	default:
		page.ServeHTTP(w, r)
	}
}

// text is a page of plain text.
func text(page func() (status int, body string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, body := page()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client left: nobody to tell
	})
}

// scrapes is how many clients may scrape at once; more get 503, so that a
// flood of them does not take the proxy's CPU.
const scrapes = 8

// exposition is the page of metrics, in the text format, in OpenMetrics, or in
// protobuf, which alone carries native histograms, as the client asks.
func exposition(registry prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: scrapes})
}
