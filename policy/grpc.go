package policy

import (
	"strconv"
	"time"
)

// GRPC is the status that a gRPC call ended with, by its code: 1 (cancelled) to
// 16 (unauthenticated). The zero value is a call that succeeded, or none at all.
type GRPC uint8

const numGRPC = 17 // codes, 0 (OK) included

// grpcNames are the codes of the gRPC core documentation ("Status codes and
// their use in gRPC") as configuration and metrics spell them.
var grpcNames = [numGRPC]string{
	"", "grpc_cancelled", "grpc_unknown", "grpc_invalid_argument", "grpc_deadline_exceeded", "grpc_not_found",
	"grpc_already_exists", "grpc_permission_denied", "grpc_resource_exhausted", "grpc_failed_precondition",
	"grpc_aborted", "grpc_out_of_range", "grpc_unimplemented", "grpc_internal", "grpc_unavailable",
	"grpc_data_loss", "grpc_unauthenticated",
}

// String returns the status as configuration and metrics spell it, such as
// grpc_unavailable; 0 is "".
func (g GRPC) String() string { return nameOf(grpcNames[:], int(g)) }

// ParseGRPC returns the gRPC status that a condition names.
func ParseGRPC(name string) (GRPC, bool) {
	if name == "" {
		return 0, false
	}
	i, ok := indexOf(grpcNames[:], name)
	return GRPC(i), ok
}

// GRPCStatuses returns every gRPC status that is a failure, by its code.
func GRPCStatuses() []GRPC {
	all := make([]GRPC, 0, numGRPC-1)
	for g := GRPC(1); g < numGRPC; g++ {
		all = append(all, g)
	}
	return all
}

// IsGRPC reports whether a message with this Content-Type is gRPC's: its
// requests may have a grpc-timeout, its responses a grpc-status.
func IsGRPC(contentType string) bool {
	const grpc = "application/grpc" // also +proto, -web and the like
	return len(contentType) >= len(grpc) && equalFold(contentType[:len(grpc)], grpc)
}

// readGRPC reads the field grpc-status, which is in a response's header where
// the call failed before it had anything else to say. A code that gRPC has not,
// and what is no number, is no status.
func readGRPC(get func(string) string) GRPC {
	value := trim(get("grpc-status"))
	if value == "" || !IsGRPC(trim(get("content-type"))) {
		return 0
	}
	code, ok := parseCount(value, 1)
	if !ok || code >= numGRPC {
		return 0
	}
	return GRPC(code)
}

// GRPCTimeout reads the request field grpc-timeout: one to eight digits and a
// unit (the gRPC protocol over HTTP/2, "Requests"). ok is false for anything
// else. 0 is a time that is over, not one without an end; what does not fit is
// the longest duration there is.
func GRPCTimeout(value string) (d time.Duration, ok bool) {
	const mostDigits = 8
	last := len(value) - 1
	if last < 1 || last > mostDigits {
		return 0, false
	}
	unit := grpcUnit(value[last])
	if unit == 0 {
		return 0, false
	}
	return parseCount(value[:last], unit)
}

// FormatGRPCTimeout writes a time as the field grpc-timeout has it: whole
// milliseconds, rounded down, but the least and the most that the format can say
// (the gRPC protocol over HTTP/2, "Requests": a positive integer of at most eight
// digits) where that is less or more.
func FormatGRPCTimeout(d time.Duration) string {
	return strconv.FormatInt(min(max(1, d.Milliseconds()), 99_999_999), 10) + "m"
}

// grpcUnit is the unit of a grpc-timeout; 0 where there is none of this letter.
func grpcUnit(letter byte) time.Duration {
	switch letter {
	case 'H':
		return time.Hour
	case 'M':
		return time.Minute
	case 'S':
		return time.Second
	case 'm':
		return time.Millisecond
	case 'u':
		return time.Microsecond
	case 'n':
		return time.Nanosecond
	}
	return 0
}
