package h1

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestKeepAliveTimeout(t *testing.T) {
	for in, want := range map[string]int64{
		"timeout=5": 5, "max=100, Timeout=7": 7, "timeout=": -1, "timeout=x": -1, "": -1, "max=1": -1, "timeout=0": 0, `timeout="2"`: 2, "timeout = 3": 3, `timeout=""`: -1, `timeout="`: -1, "timeout=99999999999999999999": -1,
	} {
		if got := keepAliveTimeout([]byte(in)); got != want {
			t.Errorf("%q: %d", in, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	err := &Error{Kind: Broken, Reason: "body", Err: io.ErrUnexpectedEOF}
	if got := err.Error(); got != "h1: broken off: body: unexpected EOF" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(got)
	}
	if KindOf(nil) != 0 || KindOf(io.EOF) != 0 {
		t.Error("kinds of other errors")
	}
}

func TestNames(t *testing.T) {
	for k := NameConnection; k < numKnown; k++ {
		for _, name := range []string{k.String(), strings.ToUpper(k.String())} {
			if LookupName([]byte(name)) != k || (Field{Name: []byte(name)}).Known() != k {
				t.Error(name)
			}
		}
	}
	for _, name := range []string{"", "x", "hosts", "hos\x54x", "H\x4fSU", strings.Repeat("x", 40)} {
		if LookupName([]byte(name)) != NameOther {
			t.Error(name)
		}
	}
	h := Header{{Name: []byte("A"), Value: []byte("b, C ,d")}, {Name: []byte("a"), Value: []byte("E")}}
	if !h.HasToken("a", "c") || !h.HasToken("A", "e") || h.HasToken("a", "b, C") || h.Has("b") || h.Count("a") != 2 || h.Get("b") != nil || h.GetKnown(NameHost) != nil {
		t.Error("header")
	}
}
