package config_test

import (
	"fmt"

	"mulligan/policy"
)

// spell writes a value out for a failed comparison, with what pointers point to.
func spell(v any) string {
	switch v := v.(type) {
	case *policy.Upstream:
		text := fmt.Sprintf("%+v", *v)
		for _, r := range append([]*policy.Route{v.Default}, v.Routes...) {
			text += fmt.Sprintf("\n  %+v", *r)
		}
		return text
	case []*policy.Upstream:
		text := ""
		for _, u := range v {
			text += "\n" + spell(u)
		}
		return text
	}
	return fmt.Sprintf("%+v", v)
}
