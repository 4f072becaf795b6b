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
//	    before each attempt:
//	Breaker.Allow, Choose         which endpoint takes it, if any does
//	    after each attempt:
//	Outcome (+ ReadHeader)        what was seen on the wire
//	Retry.LooksInto, Retry.Rule   status, fields, JSON body → Outcome.Ruled
//	Retry.Mark → Breaker.Done     what it says of the endpoint
//	Retry.Holds → Pause.Hold      what it says of when others may come back
//	Session.Next                  Outcome, State, random → Decision
//	    ├─ Retry.Classify         succeeded, permanent or retryable
//	    ├─ the stops, in order    Stop
//	    ├─ Backoff, hints         how long to wait
//	    └─ Budget.Withdraw        last, and only for a retry that will be sent
//
// A Decision is either a retry after Decision.Wait, already paid for, or a
// Stop. Who will not send a retry that was decided gives its token back with
// Session.Undo.
//
// An attempt that goes beside another (Session.MayHedge, Recent.P95) pays with
// Budget.Withdraw too, and counts with State.Hedges and Session.Hedged.
//
// What outlives requests (Budget, Breaker, Pause, Latency, Recent) is safe for
// concurrent use; what belongs to one (Session) is not.
package policy
