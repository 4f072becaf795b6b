package policy_test

import (
	"slices"
	"strings"
	"testing"

	"mulligan/policy"
)

func TestSetAdd(t *testing.T) {
	s := set(t, "timeout", "503", "4xx", "dependency_overloaded", "999", "grpc_unavailable", "grpc_cancelled")
	for status := -1; status <= 1100; status++ {
		want := status == 503 || status == 529 || status == 999 || status >= 400 && status < 500
		if s.HasStatus(status) != want {
			t.Errorf("HasStatus(%d) = %v", status, !want)
		}
	}
	for _, c := range policy.Classes() {
		if want := c == policy.Timeout; s.HasClass(c) != want {
			t.Errorf("HasClass(%s) = %v", c, !want)
		}
	}
	if s.HasClass(policy.ClassNone) || s.HasClass(200) {
		t.Error("it has a class that is none")
	}
	for _, g := range policy.GRPCStatuses() {
		if want := g == 1 || g == 14; s.HasGRPC(g) != want {
			t.Errorf("HasGRPC(%s) = %v", g, !want)
		}
	}
	if s.HasGRPC(0) || s.HasGRPC(17) || s.HasGRPC(200) {
		t.Error("it has a gRPC status that is none")
	}
	want := []string{"timeout", "grpc_cancelled", "grpc_unavailable", "4xx", "503", "529", "999"}
	if got := s.Words(); !slices.Equal(got, want) {
		t.Errorf("words %v, want %v", got, want)
	}
	if s != set(t, want...) {
		t.Error("the canonical words are another set")
	}
}

func TestSetAddRefuses(t *testing.T) {
	for _, word := range []string{
		"", "inherit", "timeouts", "Timeout", "5XX", "5x", "6xx", "0xx", "xx", "099", "99", "1000", "+50", "5 3", "50x", "５03", "-503", "503 ",
		"grpc_ok", "grpc_", "grpc_14", "GRPC_UNAVAILABLE", "unavailable",
	} {
		var s policy.Set
		err := s.Add(word)
		if err == nil {
			t.Errorf("Add(%q) did", word)
			continue
		}
		if s != (policy.Set{}) {
			t.Errorf("Add(%q) failed and left %v", word, s.Words())
		}
		for _, part := range []string{"timeout", "protocol_error", "dependency_overloaded", "5xx", "grpc_aborted"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("Add(%q) does not say that %s is a word: %v", word, part, err)
			}
		}
	}
}

func TestConditions(t *testing.T) {
	words := policy.Conditions()
	for _, w := range words {
		var s policy.Set
		if err := s.Add(w); err != nil || s == (policy.Set{}) {
			t.Errorf("%q: %v", w, err)
		}
	}
	words[0] = "changed"
	if policy.Conditions()[0] == "changed" || policy.ConnectFailure.String() == "changed" {
		t.Error("a caller can change the words")
	}
}

func FuzzSetAdd(f *testing.F) {
	for _, w := range append(policy.Conditions(), "503", "999", "6xx", "", "inherit") {
		f.Add(w)
	}
	f.Fuzz(func(t *testing.T, word string) {
		var s policy.Set
		if err := s.Add(word); err != nil {
			if s != (policy.Set{}) {
				t.Fatalf("an error, and %v", s.Words())
			}
			return
		}
		words := s.Words()
		if len(words) == 0 || s != set(t, words...) {
			t.Fatalf("%q reads back as %v", word, words)
		}
	})
}
