package config

import "testing"

func TestAddress(t *testing.T) {
	tests := []struct {
		text                 string
		ok                   bool
		loopback, everywhere bool
	}{
		{"127.0.0.1:7080", true, true, false},
		{"127.8.9.1:0", true, true, false},
		{"[::1]:7080", true, true, false},
		{"[::ffff:127.0.0.1]:7080", true, true, false},
		{"localhost:7080", true, true, false},
		{"LocalHost.:7080", true, true, false},
		{":7080", true, false, true},
		{":0", true, false, true},
		{"0.0.0.0:7080", true, false, true},
		{"[::]:7080", true, false, true},
		{"[::ffff:0.0.0.0]:7080", true, false, true},
		{"10.0.0.1:65535", true, false, false},
		{"[fe80::1%eth0]:7080", true, false, false},
		{"sidecar.example:7080", true, false, false},
		{"localhost.example:7080", true, false, false},
		{"", false, false, false},
		{"127.0.0.1", false, false, false},
		{"127.0.0.1:", false, false, false},
		{"127.0.0.1:65536", false, false, false},
		{"127.0.0.1:-1", false, false, false},
		{"127.0.0.1:http", false, false, false},
		{"::1", false, false, false},
		{"::1:7080", false, false, false},
		{"[::1:7080", false, false, false},
		{"[::1]7080:1", false, false, false},
		{"[127.0.0.1]:7080", false, false, false},
		{"*:7080", false, false, false},
		{"http://localhost:7080", false, false, false},
		{"a b:7080", false, false, false},
	}
	for _, test := range tests {
		a, wrong, _ := parseAddress(test.text)
		if (wrong == "") != test.ok {
			t.Errorf("%q: %q", test.text, wrong)
		} else if test.ok && (a.loopback() != test.loopback || a.everywhere() != test.everywhere) {
			t.Errorf("%q: loopback %v, everywhere %v", test.text, a.loopback(), a.everywhere())
		}
	}
}

func TestCollides(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1:1", "127.0.0.1:1", true},
		{"127.0.0.1:1", "127.0.0.1:2", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"127.0.0.1:1", "127.0.0.2:1", false},
		{"127.0.0.1:1", "[::ffff:127.0.0.1]:1", true},
		{"127.0.0.1:1", "[::1]:1", false},
		{"localhost:1", "127.0.0.1:1", true},
		{"localhost:1", "[::1]:1", true},
		{"localhost:1", "127.0.0.2:1", false},
		{"localhost:1", "LOCALHOST.:1", true},
		{"localhost:1", ":1", true},
		{":1", "10.0.0.1:1", true},
		{":1", "[fe80::1]:1", true},
		{":1", ":1", true},
		{"[::]:1", "10.0.0.1:1", true},
		{"0.0.0.0:1", "10.0.0.1:1", true},
		{"0.0.0.0:1", "[::1]:1", false},
		{"0.0.0.0:1", "[::]:1", true},
		{"a.example:1", "a.example:1", true},
		{"a.example:1", "b.example:1", false},
		{"a.example:1", "10.0.0.1:1", false},
	}
	for _, test := range tests {
		a, wrongA, _ := parseAddress(test.a)
		b, wrongB, _ := parseAddress(test.b)
		if wrongA+wrongB != "" {
			t.Fatal(test, wrongA, wrongB)
		}
		if collide(a, b) != test.want || collide(b, a) != test.want {
			t.Errorf("%s and %s: got %v and %v, want %v", test.a, test.b, collide(a, b), collide(b, a), test.want)
		}
	}
}

func collide(first, second address) bool {
	taken := make(occupied)
	taken.add(first, 0)
	_, ok := taken.first(second)
	return ok
}

// TestFirstTaken: a collision names the first listener that is in the way.
func TestFirstTaken(t *testing.T) {
	taken := make(occupied)
	for i, text := range []string{"[::1]:1", "a.example:1", "127.0.0.1:1", "127.0.0.1:1", "10.0.0.1:2"} {
		a, _, _ := parseAddress(text)
		taken.add(a, i)
	}
	for text, want := range map[string]int{"localhost:1": 0, "[::]:1": 0, "0.0.0.0:1": 1, "127.0.0.1:1": 2, "10.0.0.1:2": 4} {
		a, _, _ := parseAddress(text)
		if got, ok := taken.first(a); !ok || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, ok, want)
		}
	}
}
