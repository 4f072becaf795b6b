package policy

import "testing"

// TestHealth: each letter is a check, + or -; the verdict after it stands below, U
// for unhealthy.
func TestHealth(t *testing.T) {
	for _, row := range []struct {
		unhealthyAfter, healthyAfter int
		checks, verdicts             string
	}{
		{3, 2, "+++++", "....."},
		{3, 2, "---++", "..UU."},
		{3, 2, "--+--+--+", "........."},
		{3, 2, "----+-+-++", "..UUUUUUU."},
		{3, 2, "---++--+---", "..UU......U"},
		{1, 1, "-+-+", "U.U."},
		{0, 0, "-+-+", "U.U."},
		{1, 3, "-++-+++", "UUUUUU."},
	} {
		var h Health
		c := &HealthCheck{UnhealthyAfter: row.unhealthyAfter, HealthyAfter: row.healthyAfter}
		if h.Unhealthy() {
			t.Error("unhealthy, and nothing is known")
		}
		for i, check := range row.checks {
			before := h.Unhealthy()
			turned := h.Observe(c, check == '+')
			if h.Unhealthy() != (row.verdicts[i] == 'U') || turned != (h.Unhealthy() != before) {
				t.Errorf("%+v: check %d: %v, turned %v", row, i, h.Unhealthy(), turned)
			}
		}
	}
}
