package policy

// otherReason stands for every status that has no series of its own.
const otherReason = "other"

// threeDigits is "100101102...999": a status's text without an allocation.
var threeDigits = func() string {
	var b []byte
	for s := minStatus; s <= maxStatus; s++ {
		b = append(b, byte('0'+s/100), byte('0'+s/10%10), byte('0'+s%10))
	}
	return string(b)
}()

// knownStatuses are those of the IANA registry and a few that are common
// beyond it (Cloudflare's 52x, 529 for overloaded, nginx's 499).
var knownStatuses = func() (known Set) {
	for _, r := range [...][2]int{
		{100, 104}, {200, 208}, {226, 226}, {300, 308}, {400, 418}, {421, 426}, {428, 429}, {431, 431}, {451, 451},
		{499, 499}, {500, 508}, {510, 511}, {520, 527}, {529, 530},
	} {
		for status := r[0]; status <= r[1]; status++ {
			known.addStatus(status)
		}
	}
	return known
}()

// reason names what an attempt ended with, as a metric's label may: the class,
// else the gRPC status that a list has, else the status. An upstream must not be
// able to make series at will, so an odd status is "other" unless the configuration
// lists it one by one.
func (r *Retry) reason(o Outcome) string {
	if o.Class != ClassNone {
		return o.Class.String()
	}
	if r.knows(o.GRPC) {
		return o.GRPC.String()
	}
	if knownStatuses.hasStatus(o.Status) || r.names(o.Status) {
		i := 3 * (o.Status - minStatus)
		return threeDigits[i : i+3]
	}
	return otherReason
}

// names reports whether the configuration lists the status one by one, in
// retry_on or in a rule that has it retried.
func (r *Retry) names(status int) bool {
	names := func(s *Set) bool { return s.hasStatus(status) && !s.hasHundred(status) }
	if names(&r.RetryOn) {
		return true
	}
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.Retry && names(&rule.Status) {
			return true
		}
	}
	return false
}
