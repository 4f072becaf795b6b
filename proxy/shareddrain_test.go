package proxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"mulligan/proxy"
)

// TestDrainWithHTTP2Clients: connections without a request end at once, requests
// under way are finished, and new ones are not taken.
func TestDrainWithHTTP2Clients(t *testing.T) {
	began, finish := make(chan bool), make(chan bool)
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- true
			<-finish
		}
		io.WriteString(w, "done")
	}, nil)
	idle, busy := i.client(t, true), i.client(t, true)
	get(t, idle, "https://"+i.host+"/")
	answer := make(chan string, 1)
	go func() {
		resp, err := busy.Get("https://" + i.host + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(body)
	}()
	<-began
	ended := make(chan error, 1)
	go func() { ended <- i.srv.Shutdown(context.Background()) }()
	if !eventually(func() bool { return i.srv.Connections() == 1 }) {
		t.Fatalf("%d connections are left, want the busy one", i.srv.Connections())
	}
	close(finish)
	if got := <-answer; got != "done" {
		t.Errorf("the request under way: %q", got)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the drain does not end")
	}
}

// TestCutOffHTTP2: what is under way when the time is over ends by a reset.
func TestCutOffHTTP2(t *testing.T) {
	began := make(chan bool)
	i := intercept(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		began <- true
		<-r.Context().Done()
	}, nil)
	read := make(chan error, 1)
	go func() {
		resp, err := i.client(t, true).Get("https://" + i.host + "/")
		if err == nil {
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
		}
		read <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := i.srv.Shutdown(ctx)
	if cut, ok := errors.AsType[*proxy.CutOffError](err); !ok || cut.Connections != 1 {
		t.Errorf("the end of the drain: %v", err)
	}
	if err := <-read; err == nil {
		t.Error("what was cut off looks whole")
	}
}
