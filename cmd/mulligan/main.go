// Command mulligan is a retrying HTTP sidecar proxy.
//
// Each verb has a file of its own; cli.go has what they share: the table of
// verbs, flags, usage texts and mistakes. app.go puts the parts of a running
// proxy together, serve.go runs it, reload.go watches its files.
//
//	main.go → cli.go ─ verb ─┬─ serve.go ── app.go ── proxy, metrics, admin.go
//	                         │      └── reload.go
//	                         ├─ exec*.go      app.go for one command, and the command's environment
//	                         ├─ check.go      config only
//	                         ├─ explain*.go   policy in virtual time, no network
//	                         ├─ demo*.go      app.go between an upstream and clients of its own
//	                         └─ version.go
package main

import "os"

// version is set when a release is linked (-ldflags "-X main.version=...").
var version string

func main() {
	os.Exit(run(os.Args[1:], terminal{out: os.Stdout, err: os.Stderr, env: os.LookupEnv}))
}
