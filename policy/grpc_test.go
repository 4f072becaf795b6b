package policy_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"mulligan/policy"
)

func TestGRPCStatus(t *testing.T) {
	for _, tt := range []struct {
		contentType, status string
		want                string
	}{
		{"application/grpc", "14", "grpc_unavailable"},
		{"application/grpc", "1", "grpc_cancelled"},
		{"application/grpc", "16", "grpc_unauthenticated"},
		{"application/grpc", "0", ""},
		{"application/grpc", "17", ""},
		{"application/grpc", "014", "grpc_unavailable"},
		{"application/grpc", " 14 ", "grpc_unavailable"},
		{"application/grpc", "99999999999999999999", ""},
		{"application/grpc", "18446744073709551630", ""}, // 14 more than 64 bits hold
		{"application/grpc", "", ""},
		{"application/grpc", "-14", ""},
		{"application/grpc", "+14", ""},
		{"application/grpc", "14.0", ""},
		{"application/grpc", "0x0e", ""},
		{"application/grpc", "UNAVAILABLE", ""},
		{"application/grpc+proto", "8", "grpc_resource_exhausted"},
		{"application/grpc;charset=utf-8", "4", "grpc_deadline_exceeded"},
		{"Application/GRPC", "13", "grpc_internal"},
		{"application/grpc-web+proto", "14", "grpc_unavailable"},
		{"application/json", "14", ""},
		{"text/application/grpc", "14", ""},
		{"application/grp", "14", ""},
		{"", "14", ""},
	} {
		o := read(200, false, "content-type", tt.contentType, "grpc-status", tt.status)
		if o.GRPC.String() != tt.want || o.Status != 200 || o.Class != policy.ClassNone {
			t.Errorf("%q, %q: %+v, want %q", tt.contentType, tt.status, o, tt.want)
		}
	}
}

func TestGRPCTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "4m": 4 * time.Millisecond, "5u": 5 * time.Microsecond, "6n": 6,
		"00000010S": 10 * time.Second, "99999999M": 99999999 * time.Minute, "99999999n": 99999999,
		"2562047H": 2562047 * time.Hour, "2562048H": forever, "99999999H": forever, "0n": 0,
	} {
		if d, ok := policy.GRPCTimeout(value); !ok || d != want {
			t.Errorf("%q: %v, %v, want %v", value, d, ok, want)
		}
	}
	for _, value := range []string{
		"", "S", "1", "10", "1s", "1h", "1 S", " 1S", "1S ", "-1S", "+1S", "1.5S", "1ms", "123456789n", "1SS", "0x1S", "١S", "1µ",
	} {
		if d, ok := policy.GRPCTimeout(value); ok || d != 0 {
			t.Errorf("%q: %v, %v", value, d, ok)
		}
	}
}

func TestFormatGRPCTimeout(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500 * time.Millisecond: "1500m", 1999 * time.Microsecond: "1m", time.Hour: "3600000m", 99_999_999 * time.Millisecond: "99999999m",
		0: "1m", -time.Second: "1m", time.Microsecond: "1m", 28 * time.Hour: "99999999m", forever: "99999999m",
	} {
		got := policy.FormatGRPCTimeout(d)
		if got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
		if _, ok := policy.GRPCTimeout(got); !ok {
			t.Errorf("%q cannot be read", got)
		}
	}
}

// The same by other means: a number in a unit, as long as it fits.
func FuzzGRPCTimeout(f *testing.F) {
	for _, value := range []string{"1H", "99999999H", "0n", "12345678u", "", "1s"} {
		f.Add(value)
	}
	units := map[string]float64{"H": 3.6e12, "M": 6e10, "S": 1e9, "m": 1e6, "u": 1e3, "n": 1}
	f.Fuzz(func(t *testing.T, value string) {
		d, ok := policy.GRPCTimeout(value)
		if d < 0 {
			t.Fatalf("%q: %v", value, d)
		}
		want, valid := 0.0, false
		for letter, unit := range units {
			digits, has := strings.CutSuffix(value, letter)
			n, err := strconv.ParseUint(digits, 10, 64)
			if has && err == nil && len(digits) <= 8 && !strings.Contains(digits, "_") {
				want, valid = min(float64(n)*unit, math.MaxInt64), true
			}
		}
		if ok != valid || math.Abs(float64(d)-want) > want/1e9 {
			t.Fatalf("%q: %v, %v, want %v, %v", value, d, ok, want, valid)
		}
	})
}
