package main

import "mulligan/proxy"

// forbidden returns why the place may not be dialled, as far as that shows
// without asking for names.
func (q *question) forbidden(host string, port int, endpoint bool) string {
	if why := q.settings.Forbids(host, port, endpoint, q.listeners()); why != "" {
		return "403, class denied: " + why
	}
	return ""
}

// unauthorized returns why the proxy port answers 407; "" where it does not.
// The proxy has its credentials from the CONNECT of a tunnel as well, so those
// given count there too. They are never shown.
func (q *question) unauthorized(reverse bool) string {
	switch {
	case !q.settings.Unauthorized(q.header, reverse, q.listeners()):
		return ""
	case q.header.Has("Proxy-Authorization"):
		return "the request's Proxy-Authorization is not what listen.auth asks for"
	}
	return "listen.auth asks for credentials, and the request has no Proxy-Authorization"
}

// listeners are those that the configuration has.
func (q *question) listeners() proxy.Listeners {
	own := proxy.Listeners{Proxy: q.cfg.Proxy, Others: []string{q.cfg.Admin}}
	for _, u := range q.cfg.Upstreams {
		if u.Listen != "" {
			own.Others = append(own.Others, u.Listen)
		}
	}
	return own
}
