// Package proxy is mulligan at work: it takes requests through its doors, makes
// attempts, asks policy what each outcome means, and gives the client the last
// upstream's answer.
//
//	absolute-form     origin-form (reverse)        CONNECT host:port
//	     │                 │                             │
//	 forward.go        reverse.go                    connect.go → dial (retried) ⇄ tunnel.go
//	     └───────┬─────────┘                             │ plain HTTP inside
//	             ▼                                       │
//	         retry.go  ◄─────────────────────────────────┘
//	             │ attempt.go: one send → policy.Outcome
//	             │ policy.Session: deliver | retry after d | stop(reason)
//	             │ wait d → rewind body.go → next attempt
//	             ▼
//	       response.go → client;  account.go: metrics, access log
//
// Each door only sets a target, an upstream and a route. The loop in retry.go
// is the same for all. Package h1 moves the bytes and says by type what
// happened to them; package policy decides and never touches a socket.
//
// One goroutine serves one client connection. What a request waits for is seen
// by one watcher for all (watch.go): clients that leave, attempts and windows
// that run out, bodies that stand still.
//
// Start reading at Server, then clientConn.handle, then exchange.run.
package proxy
