// Command bench measures mulligan beside HAProxy: the CPU time that a request
// costs in each proxy process, what an idle connection costs in memory, and
// what a large body does.
//
//	make bench
//
// Both proxies stand before the same upstream (this program again, started as
// a process of its own) and get the same load from wrk, one after the other in
// interleaved rounds, all on loopback. What is compared is the kernel's
// account of each process's CPU time (user and system) divided by the requests
// that wrk counted; the ratio is taken round by round, so that what else the
// machine does hits both sides of it. Requests go to a port of the upstream's
// own (`listen`), since wrk speaks origin-form only. HAProxy runs one thread
// with retries, keep-alive and reuse on; mulligan runs with metrics on and the
// access log off, and GOMAXPROCS as it finds it.
//
// The program needs Linux, haproxy and wrk, is over in about three minutes,
// and ends what it started. The picture, by file:
//
//	main.go       flags, the order of things
//	upstream.go   the upstream, a process of its own
//	proxies.go    how each proxy is configured and started
//	process.go    starting, ending and accounting processes
//	wrk.go        one run of wrk
//	rounds.go     interleaved runs, case by case
//	memory.go     idle connections and large bodies
//	report.go     the tables
package main
