package main

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"

	"mulligan/policy"
	"mulligan/policy/config"
	"mulligan/proxy"
)

// newSettings makes the proxy's settings of a configuration. What stands under
// `listen` is taken from started, the configuration that the listeners were
// opened with: a guard must not be dropped while the listener that needs it is
// still open.
func newSettings(cfg, started *config.Config) (*proxy.Settings, error) {
	s := &proxy.Settings{
		Upstreams:         cfg.Upstreams,
		Default:           cfg.Default,
		DenyUnmatched:     cfg.DenyUnmatched,
		AllowClients:      started.AllowClients,
		BufferTotal:       cfg.BufferTotal,
		Via:               cfg.Via,
		AllowDestinations: cfg.AllowDestinations,
		DenyDestinations:  cfg.DenyDestinations,
		AccessLog:         cfg.Log.Access,
	}
	if a := started.Auth; a != nil {
		s.Auth = &proxy.Credentials{Username: a.Username, Password: a.Password}
	}
	if cfg.ParentProxy != "" {
		parent, err := url.Parse(cfg.ParentProxy)
		if err != nil {
			return nil, fmt.Errorf("parent_proxy is not a URL") // the URL may hold a password
		}
		s.ParentProxy = parent
	}
	return s, nil
}

// restartNeeded returns the keys under `listen` that differ: only a restart
// takes them. What an upstream listens to is the proxy's to say.
func restartNeeded(started, cfg *config.Config) []string {
	var keys []string
	for _, k := range []struct {
		name string
		same bool
	}{
		{"listen.proxy", started.Proxy == cfg.Proxy},
		{"listen.admin", started.Admin == cfg.Admin},
		{"listen.allow_clients", slices.Equal(started.AllowClients, cfg.AllowClients)}, // one left out equals an empty one
		{"listen.auth", sameUser(started.Auth, cfg.Auth)},
		{"listen.admin_hosts", slices.Equal(started.AdminHosts, cfg.AdminHosts)},
		{"listen.proxy.tls", reflect.DeepEqual(started.ProxyTLS, cfg.ProxyTLS)},
		{"listen.admin.tls", reflect.DeepEqual(started.AdminTLS, cfg.AdminTLS)},
		{"data_dir", started.DataDir == cfg.DataDir},
	} {
		if !k.same {
			keys = append(keys, k.name)
		}
	}
	return append(keys, listensChanged(started, cfg)...)
}

// listensChanged returns the listeners of upstreams that are to speak TLS otherwise
// than they do.
func listensChanged(started, cfg *config.Config) (keys []string) {
	before, now := listenersWithTLS(started), listenersWithTLS(cfg)
	for _, u := range cfg.Upstreams {
		key := "upstreams." + u.Name + ".listen"
		if was, is := before[key], now[key]; !reflect.DeepEqual(was.tls, is.tls) && listened(started, u.Listen) {
			keys = append(keys, key+".tls")
		}
	}
	return keys
}

// listened reports whether an upstream had the address.
func listened(cfg *config.Config, address string) bool {
	return slices.ContainsFunc(cfg.Upstreams, func(u *policy.Upstream) bool { return u.Listen == address })
}

func sameUser(a, b *config.Auth) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
