package config

import (
	"net/url"
	"strconv"
	"strings"

	"mulligan/policy"
)

// endpoint reads a base URL.
var endpoint = parsed(func(text string) (e policy.Endpoint, wrong, hint string) {
	u, host, wrong, hint := parseURL(text, "https://api.example.com")
	switch {
	case wrong != "":
		return e, wrong, hint
	case u.User != nil:
		return e, "has a user name in it", "clients send their own credentials"
	}
	e = policy.Endpoint{Scheme: u.Scheme, Host: host.Name, Port: host.Port,
		Path: strings.TrimRight(u.EscapedPath(), "/"), Text: text}
	if e.Port == 0 {
		e.Port = map[string]int{"http": 80, "https": 443}[e.Scheme]
	}
	return e, "", ""
})

const parentExample = "http://proxy.example.com:3128"

// parentProxy reads the URL of a proxy and writes its port out.
var parentProxy = parsed(func(text string) (proxy, wrong, hint string) {
	u, host, wrong, hint := parseURL(text, parentExample)
	switch {
	case wrong != "":
		return "", wrong, hint
	case u.Scheme != "http":
		return "", "is not http", "write a URL such as " + parentExample
	case strings.Trim(u.Path, "/") != "":
		return "", "has a path", "write a URL such as " + parentExample
	}
	if host.Port == 0 {
		u.Host += ":" + strconv.Itoa(80)
	}
	return (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String(), "", ""
})

// parseURL reads the URL of a server: http or https, a host, no query. wrong
// is "" where it could; example is what hints offer.
func parseURL(text, example string) (u *url.URL, host policy.HostPattern, wrong, hint string) {
	example = "write a URL such as " + example
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		return nil, host, "has no http:// or https:// in front", example
	case err != nil:
		// Its own text would repeat the URL, and with it a password.
		return nil, host, "is not a URL", example
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, host, "is neither http nor https", example
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, host, "has a query or fragment", "leave out what begins with ? or #"
	case hasDots(u.Path):
		return nil, host, "has a . or .. part in its path", example
	}
	host, err = policy.ParseHost(u.Host)
	if err != nil || host.Wildcard {
		return nil, host, "has no host that can be called", example
	}
	return u, host, "", ""
}
