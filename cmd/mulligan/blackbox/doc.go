// Package blackbox tests mulligan from the outside: it builds the real binary
// with the race detector, starts it on free loopback ports, talks bytes on
// sockets to it as a client and as an upstream, and reads its metrics, its log
// and its exit status. It imports nothing of ours, so that a test here can only
// say what a user could see.
//
// Tests say which behaviour they hold the binary to. Where one names a section
// ("Section 7"), or the contract, that is a document of the project's owners
// which is not in this repository; the sentence beside it says what is meant.
//
// Start reading at harness_test.go (the build and the process),
// upstream_test.go (the scripted upstream) and client_test.go (the raw client);
// every other file is one theme.
//
// Time appears only as a bound on behaviour: a wait that a server's hint asked
// for is at least as long as the hint, and whatever must happen "at once" is
// given seconds. Nothing here measures speed.
package blackbox
