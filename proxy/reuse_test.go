package proxy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestUpstreamConnectionIsReused: requests one after the other use one
// connection, whatever their answer looks like.
func TestUpstreamConnectionIsReused(t *testing.T) {
	var conns atomic.Int32
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/304":
			w.WriteHeader(304)
		case "/chunked":
			w.(http.Flusher).Flush()
			io.WriteString(w, "x")
		default:
			io.WriteString(w, "x")
		}
	}))
	up.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	up.Start()
	defer up.Close()
	client := through(start(t, settings()))
	for i := range 3000 {
		path := []string{"/", "/304", "/chunked"}[i%3]
		resp, err := client.Get(up.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
