// Package proxy is mulligan at work: it takes requests through its doors, makes
// attempts, asks policy what each outcome means, and gives the client the last
// upstream's answer.
//
//	absolute-form     origin-form (reverse)        CONNECT host:port
//	     │                 │                             │
//	 forward.go        reverse.go                    connect.go ─ intercept? ─no→ dial (retried) ⇄ tunnel.go
//	     └───────┬─────────┘                             │yes             plain HTTP inside │
//	             ▼                                  intercept.go → TLS → shared.go: h2 ┐    │
//	         retry.go  ◄──────────────────────────────────────┴────────────────────────┴────┘
//	             │ admit.go: endpoint.go: which one; pacer.go: a turn; gate.go: a place; policy.Breaker: its circuit
//	             │ hedge.go: the attempt, and others beside it; the first good answer wins
//	             │ attempt.go: one send → policy.Outcome     links.go: a connection, or a stream of one
//	             │ hold.go, look.go: as much of the answer as has to be known
//	             │ policy.Session: deliver | retry after d | stop(reason)
//	             │ wait d → rewind body.go → next attempt
//	             ▼
//	       response.go → client;  account.go: metrics, access log
//
// Each door only sets a target, an upstream and a route. The loop in retry.go
// is the same for all, and knows both sides by what sides.go asks of them: a
// connection of HTTP/1.1 (package h1) or a stream of HTTP/2 (package h2), which
// move the bytes and say by type what happened to them. Package policy decides
// and never touches a socket; package certs has the certificates.
//
// What outlives requests is kept per upstream, and per host where a wildcard matches it
// or nothing does (state.go): budgets, limits (limits.go), connections, and what is
// known of each endpoint, to which health.go's checks add. Where an upstream has
// neither limits nor a choice of endpoints, admit.go is one look at a flag.
//
// One goroutine serves one client connection, or stream; an attempt beside another has
// its own. What a request waits for is seen by one watcher for all (watch.go): clients
// that leave, attempts and windows that run out, bodies that stand still.
//
// Start reading at Server, then clientConn.handle, then exchange.run.
package proxy
