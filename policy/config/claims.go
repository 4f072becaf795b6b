package config

import "gopkg.in/yaml.v3"

// claims are what may stand in a file only once, with the place where it does.
type claims map[string]place

type place struct {
	path string
	line int
}

func newClaims() claims { return make(claims) }

// claim takes what n stands for, or reports who has it. What is taken is named
// by kind and value in one canonical spelling, which messages do not show.
func (c claims) claim(d *decoder, n *yaml.Node, what string) {
	if first, taken := c[what]; taken {
		d.fail(n, "the same as %s in line %d", first.path, first.line)
		return
	}
	c[what] = place{d.path, n.Line}
}
