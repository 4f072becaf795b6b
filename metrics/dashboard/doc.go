// Package dashboard serves the admin port: metrics, health, and an index of
// what else there is.
//
//	http.Serve(listener, dashboard.New(dashboard.Options{
//		Registry: registry, Ready: proxy.Ready, Loopback: true,
//	}))
//
// On its way to a page a request has to answer: is this port called by a name
// that is ours (host.go)? May this origin write (net/http's own protection)?
// May this client see more than metrics and health (gates.go)? Is there such a
// page, with such a method (pages.go)? Whether a client's address may connect
// at all is decided before.
package dashboard
