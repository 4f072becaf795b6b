package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"mulligan/policy"
)

// upstream builds one with the hosts.
func upstream(t testing.TB, name string, hosts ...string) *policy.Upstream {
	t.Helper()
	u := &policy.Upstream{Name: name, Default: builtin(t)}
	for _, h := range hosts {
		p, err := policy.ParseHost(h)
		if err != nil {
			t.Fatal(err)
		}
		u.Hosts = append(u.Hosts, p)
	}
	return u
}

func hostTable(t testing.TB) *policy.Table {
	return policy.NewTable([]*policy.Upstream{
		upstream(t, "exact", "api.example.com", "Upper.Example.COM", "dotted.example.com."),
		upstream(t, "exact-8443", "api.example.com:8443", "only.example.com:8443"),
		upstream(t, "wild", "*.example.com"),
		upstream(t, "wild-8443", "*.example.com:8443"),
		upstream(t, "wild-9000", "*.example.com:9000"),
		upstream(t, "deep", "*.eu.example.com"),
		upstream(t, "short-443", "*.net:443"),
		upstream(t, "long", "*.example.net"),
		upstream(t, "v4", "192.0.2.1"),
		upstream(t, "v6", "[2001:DB8:0:0::1]", "[::1]:8080"),
		upstream(t, "late", "api.example.com", "*.example.com"), // claimed before: never wins
	}, upstream(t, "default"))
}

func TestLookup(t *testing.T) {
	table := hostTable(t)
	for _, tt := range []struct {
		host  string
		port  int
		want  string
		named bool
	}{
		{"api.example.com", 80, "exact", true},
		{"api.example.com", 8443, "exact-8443", true},
		{"API.Example.Com", 80, "exact", true},
		{"api.example.com.", 80, "exact", true},
		{"API.EXAMPLE.COM.", 8443, "exact-8443", true},
		{"upper.example.com", 80, "exact", true},
		{"dotted.example.com", 80, "exact", true},
		{"dotted.example.com.", 80, "exact", true},
		{"api.example.com..", 80, "default", false},
		{"only.example.com", 8443, "exact-8443", true},
		{"only.example.com", 9000, "wild-9000", false}, // exact, but for another port
		{"only.example.com", 80, "wild", false},
		{"www.example.com", 80, "wild", false},
		{"www.example.com", 8443, "wild-8443", false},
		{"WWW.example.com.", 9000, "wild-9000", false},
		{"a.b.example.com", 80, "wild", false},
		{"a.eu.example.com", 80, "deep", false},
		{"a.eu.example.com", 8443, "deep", false}, // a longer wildcard beats a port
		{"eu.example.com", 80, "wild", false},
		{"example.com", 80, "default", false},
		{".example.com", 80, "default", false},
		{"notexample.com", 80, "default", false},
		{"example.com.evil", 80, "default", false},
		{"www.example.net", 443, "long", false},
		{"www.other.net", 443, "short-443", false},
		{"www.other.net", 80, "default", false},
		{"192.0.2.1", 80, "v4", true},
		{"192.0.2.2", 80, "default", false},
		{"2001:db8::1", 80, "v6", true},
		{"2001:0db8:0000:0000:0000:0000:0.0.0.1", 80, "v6", true},
		{"[2001:db8::1]", 80, "v6", true},
		{"2001:db8::2", 80, "default", false},
		{"::1", 8080, "v6", true},
		{"0:0:0:0:0:0:0:1", 8080, "v6", true},
		{"::1", 80, "default", false},
		{"::1%eth0", 8080, "default", false},
		{"a:b", 80, "default", false},
		{"", 80, "default", false},
		{".", 80, "default", false},
		{strings.Repeat("a.", 30_000) + "example.com", 80, "wild", false},
	} {
		u, named := table.Lookup(tt.host, tt.port)
		if u.Name != tt.want || named != tt.named {
			t.Errorf("%.60s:%d: %s, %v, want %s, %v", tt.host, tt.port, u.Name, named, tt.want, tt.named)
		}
	}
}

func TestLookupStar(t *testing.T) {
	table := policy.NewTable([]*policy.Upstream{
		upstream(t, "star-443", "*:443"), upstream(t, "star", "*"), upstream(t, "wild", "*.example.com"), upstream(t, "exact", "localhost"),
	}, upstream(t, "default"))
	for _, tt := range []struct {
		host  string
		port  int
		want  string
		named bool
	}{
		{"localhost", 443, "exact", true},
		{"www.example.com", 443, "wild", false},
		{"www.example.net", 443, "star-443", false},
		{"example", 80, "star", false},
		{"::1", 80, "star", false},
		{"192.0.2.1", 80, "star", false},
	} {
		if u, named := table.Lookup(tt.host, tt.port); u.Name != tt.want || named != tt.named {
			t.Errorf("%s:%d: %s, %v, want %s", tt.host, tt.port, u.Name, named, tt.want)
		}
	}
}

// The letter K has a second form whose lower case is the same; it must not
// find the name.
func TestLookupFoldsASCIIOnly(t *testing.T) {
	table := policy.NewTable([]*policy.Upstream{upstream(t, "k", "k.example")}, upstream(t, "default"))
	if u, _ := table.Lookup("\u212a.example", 80); u.Name != "default" {
		t.Errorf("found %s", u.Name)
	}
	if u, _ := table.Lookup("K.example", 80); u.Name != "k" {
		t.Errorf("found %s", u.Name)
	}
}

func TestMount(t *testing.T) {
	var all []*policy.Upstream
	for _, m := range []string{"/pay", "/payments", "/payments/eu", "", "/Payments"} {
		u := upstream(t, m)
		u.Mount = m
		all = append(all, u)
	}
	table := policy.NewTable(all, upstream(t, "default"))
	for _, tt := range []struct{ path, want, rest string }{
		{"/payments", "/payments", "/"},
		{"/payments/", "/payments", "/"},
		{"/payments/a%2Fb?q=1", "/payments", "/a%2Fb?q=1"},
		{"/payments?q=1", "/payments", "/?q=1"},
		{"/payments//x", "/payments", "//x"},
		{"/payments/eu", "/payments/eu", "/"},
		{"/payments/eu/x", "/payments/eu", "/x"},
		{"/payments/europe", "/payments", "/europe"},
		{"/paymentsx", "", ""},
		{"/pay", "/pay", "/"},
		{"/pay/ments", "/pay", "/ments"},
		{"/Payments/x", "/Payments", "/x"},
		{"/payment%73", "", ""},
		{"/", "", ""},
		{"", "", ""},
		{"payments", "", ""},
		{"/x/payments", "", ""},
	} {
		u, rest, ok := table.Mount(tt.path)
		if ok != (tt.want != "") || rest != tt.rest || ok && u.Name != tt.want {
			t.Errorf("%s: %v, %q, %v", tt.path, u, rest, ok)
		}
	}
}

func TestRoute(t *testing.T) {
	u := upstream(t, "u")
	u.Routes = []*policy.Route{
		{Name: "charge", Methods: []string{"POST", "PUT"}, Path: "/v1/charges"},
		{Name: "hooks", Path: "/hooks/", Prefix: true},
		{Name: "hook", Path: "/hooks/x"}, // shadowed: the first wins
		{Name: "deletes", Methods: []string{"DELETE"}, Prefix: true},
	}
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/v1/charges", "charge"},
		{"PUT", "/v1/charges", "charge"},
		{"GET", "/v1/charges", "default"},
		{"post", "/v1/charges", "default"},
		{"POST", "/v1/charges/", "default"},
		{"POST", "/v1/Charges", "default"},
		{"POST", "/v1/charge%73", "default"},
		{"GET", "/hooks/", "hooks"},
		{"GET", "/hooks/x", "hooks"},
		{"GET", "/hooks", "default"},
		{"DELETE", "/hooks/x", "hooks"},
		{"DELETE", "/anything", "deletes"},
		{"DELETE", "", "deletes"},
		{"GET", "", "default"},
	} {
		if r := u.Route(tt.method, tt.path); r.Name != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.path, r.Name, tt.want)
		}
	}
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	table := hostTable(t)
	for _, host := range []string{"api.example.com", "a.b.c.example.com", "api.example.com.", "unknown.example.org", "192.0.2.1", "2001:db8::1"} {
		if n := testing.AllocsPerRun(100, func() { table.Lookup(host, 8443) }); n != 0 {
			t.Errorf("Lookup(%s): %v allocations", host, n)
		}
	}
	u := upstream(t, "u")
	u.Mount = "/payments"
	u.Routes = []*policy.Route{{Name: "charge", Methods: []string{"POST"}, Path: "/v1/charges"}, {Name: "hooks", Path: "/hooks/", Prefix: true}}
	table = policy.NewTable([]*policy.Upstream{u}, u)
	if n := testing.AllocsPerRun(100, func() {
		u, rest, _ := table.Mount("/payments/hooks/a")
		u.Route("POST", rest)
	}); n != 0 {
		t.Errorf("Mount and Route: %v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	table := hostTable(b)
	for _, host := range []string{"api.example.com", "a.b.example.com", "unknown.example.org"} {
		b.Run(fmt.Sprint(host), func(b *testing.B) {
			for b.Loop() {
				table.Lookup(host, 443)
			}
		})
	}
}
