package policy

import "time"

// Upstream is a named set of hosts that share one policy, or a part of it:
// what is kept per upstream stands here, what a route may change stands in Route.
type Upstream struct {
	Name         string
	Hosts        []HostPattern
	Endpoints    []Endpoint // at most MaxEndpoints; empty: the request's own target
	PreserveHost bool       // send the client's Host to the endpoint, not the endpoint's
	Mount        string     // path on the proxy port, without a trailing slash; "" none
	Listen       string     // address of a port of its own; "" none
	ListenTLS    *ListenerTLS
	TLS          TLS
	Preset       string // the vendor whose rules it inherits; "" none
	Budget       BudgetConfig
	Connections  Connections
	Breaker      BreakerConfig
	Concurrency  Concurrency
	RateLimit    RateLimit
	HealthCheck  HealthCheck
	Routes       []*Route // first match wins
	Default      *Route   // where none matches; its Name is "default"
}

// MaxEndpoints bounds the endpoints of an upstream.
const MaxEndpoints = 64

// HealthCheck says how endpoints are asked whether they are well. No Path is no
// check.
type HealthCheck struct {
	Path           string        // what is asked for, behind the endpoint's own path
	Interval       time.Duration // between two checks of an endpoint
	Timeout        time.Duration // of one check
	UnhealthyAfter int           // failed checks in a row, after which an endpoint is skipped
	HealthyAfter   int           // good ones in a row, after which it is not any more
}

// Endpoint is one base URL of an upstream.
type Endpoint struct {
	Scheme string // "http" or "https"
	Host   string // without brackets or port
	Port   int
	Path   string // put before the request's path; without a trailing slash, "" none
	Text   string // as it is configured, for metrics and logs; "": as the rest says it
}

// TLS says how an upstream is spoken to over TLS: its https endpoints, and the
// hosts of tunnels that are intercepted.
type TLS struct {
	CAFile, ClientCertFile, ClientKeyFile string
	ServerName                            string
	MinVersion                            string // the least version: "1.2" or "1.3"; "" is 1.2
	Rewrite                               bool   // map the upstream's own https Location and Secure cookies back
	Intercept                             bool   // end the TLS of tunnels to its hosts here, and see the requests in them
}

// ListenerTLS says where a listener has its certificate from: from exactly one
// of Internal, ACME, and CertFile with KeyFile. A nil one is a plain listener.
type ListenerTLS struct {
	Internal          bool     // the local CA signs it
	ACME              *ACME    // an authority issues it; nil: none does
	Names             []string // what it is for, lower-case; never empty with ACME, always with files
	CertFile, KeyFile string
}

// ACME says which authority issues a listener's certificate, and how it checks
// that the names lead here (RFC 8555).
type ACME struct {
	Email       string // for the account; "" none
	Directory   string // https URL of the authority; "" the client's own choice
	CAFile      string // roots that the authority itself is trusted by; "" the system's
	HTTPPort    int    // where HTTP-01 is answered; 0 is 80
	TLSALPNPort int    // where TLS-ALPN-01 is answered (RFC 8737); 0 is 443
}

// Connections bounds the pool of each endpoint.
type Connections struct {
	Idle           time.Duration // an idle connection is closed after this; 0 = no limit
	MaxPerEndpoint int
}

// Concurrency bounds an upstream's attempts at once. Max 0 is no bound.
type Concurrency struct {
	Max     int           // under way at once, each until its body ends
	Queue   int           // attempts that may wait for a place
	MaxWait time.Duration // how long each may
}

// RateLimit spaces an upstream's attempts. PerSecond 0 is no limit.
type RateLimit struct {
	PerSecond float64
	Burst     int           // that may go at once
	MaxWait   time.Duration // how long an attempt may be held for its turn
}

// Hedge says when an attempt that has no answer gets company. Max 0 is no hedging.
type Hedge struct {
	Delay time.Duration // after the request was sent; 0 = the upstream's P95
	Max   int           // attempts more at once
}

// Route is the policy of a part of an upstream: methods and a path.
type Route struct {
	Name    string
	Methods []string // empty: all
	Path    string   // without the final * of a prefix; "" with Prefix: all
	Prefix  bool
	Timeout TimeoutConfig
	Retry   Retry
	Buffer  Buffer
	Hedge   Hedge

	AttemptHeader   string // request field that tells the upstream the attempt's number; "" none
	RemainingHeader string // one that tells what is left of the window, in ms; "" none
}

// TimeoutConfig holds a route's time limits; 0 means no limit.
type TimeoutConfig struct {
	Connect    time.Duration // one dial, TLS handshake included
	Attempt    time.Duration // request's last byte sent to response header; cuts only where a retry follows
	Total      time.Duration // the window: until the response header that the client gets
	Idle       time.Duration // a body that moves no byte for so long is given up
	TunnelIdle time.Duration // the same for a tunnel
}

// Mode says what retry decisions lead to.
type Mode uint8

// The modes of retry.mode.
const (
	ModeOn      Mode = iota // retry
	ModeObserve             // decide and count, send nothing again
	ModeOff                 // never retry, keep nothing for replay
)

// Retry is a route's retry policy.
type Retry struct {
	Mode            Mode
	MaxAttempts     int      // the first included
	Methods         []string // idempotent methods, case-sensitive
	IdempotencyKeys []string // header names; a request with one, not empty, may be repeated
	RetryOn         Set
	DoNotRetryOn    Set
	Backoff         Backoff
	RetryAfter      time.Duration // the longest server hint that is obeyed; 0 ignores hints
	Nested          bool          // retry even what came through another mulligan
	Rules           []Rule        // before all lists; the first that matches decides
	ResetHeaders    []ResetHeader // a vendor's own hints, read after the standard ones

	CountClientRetries bool // a request that is a client SDK's own retry takes a token of the budget, if there is one
}

// ResetHeader is a response field by which a vendor says when a rate limit's
// allowance is back.
type ResetHeader struct {
	Name      string
	Format    ResetFormat
	Remaining string // the field that has to be 0 for it to count; "" it always does
	Full      bool   // it says when all of the allowance is back, and one request may go sooner
}

// ResetFormat says how a reset field is written.
type ResetFormat uint8

// The formats of reset fields.
const (
	ResetEpoch    ResetFormat = iota // seconds since 1970, decimals allowed
	ResetSeconds                     // from now, decimals allowed
	ResetDuration                    // from now, such as 6m0s or 12ms
	ResetRFC3339                     // a date of RFC 3339
	ResetClock                       // from now, hh:mm:ss
)

// Buffer bounds what is kept of one request and its response, in bytes.
type Buffer struct {
	Request  int64 // a request body is kept for replay up to here
	Response int64 // a response whose Content-Length is at most this is held until whole

	FirstEvent bool // hold an event stream's head until its first event
}
