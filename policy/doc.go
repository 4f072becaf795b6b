// Package policy decides: which upstream and route a request belongs to, how
// an attempt ended, whether another one follows, and after how long a wait.
//
// It is pure. It sends, waits, logs and dials nothing; time and randomness
// come in as arguments, so that the proxy, the explain command and tests in
// virtual time get the same decisions from the same code.
//
// The way of one request through it:
//
//	Table.Lookup / Table.Mount    host or path → Upstream
//	Upstream.Route                method, path → Route
//	NewSession                    Route, Budget, Request → Session
//	    after each attempt:
//	Outcome (+ ReadHeader)        what was seen on the wire
//	Retry.LooksInto, Retry.Rule   status, fields, JSON body → Outcome.Ruled
//	Session.Next                  Outcome, State, random → Decision
//	    ├─ Retry.Classify         succeeded, permanent or retryable
//	    ├─ the stops, in order    Stop
//	    ├─ Backoff, hints         how long to wait
//	    └─ Budget.Withdraw        last, and only for a retry that will be sent
//
// A Decision is either a retry after Decision.Wait, already paid for, or a
// Stop. Who will not send a retry that was decided gives its token back with
// Session.Undo.
package policy
