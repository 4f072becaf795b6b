package main

import (
	"fmt"
	"strings"

	"mulligan/policy/config"
)

const presetUsage = `Usage: mulligan preset [NAME]

Prints a preset: a vendor's own retry rules, with their sources, which an
upstream has with preset: NAME. Without a name: which presets there are.
`

func runPreset(t terminal, args []string) error {
	names, err := newFlags("preset", presetUsage).parse(t, args, 1)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		for _, name := range config.Presets() {
			fmt.Fprintf(t.out, "%-10s %s\n", name, presetTitle(name))
		}
		return nil
	}
	text, ok := config.Preset(names[0])
	if !ok {
		hint := "`mulligan preset` lists them"
		if near := config.Nearest(names[0], config.Presets()); near != "" {
			hint = "did you mean `mulligan preset " + near + "`?"
		}
		return misuse(hint, "there is no preset %q", names[0])
	}
	fmt.Fprint(t.out, text)
	return nil
}

// presetTitle is the first line of a preset, which says what it is.
func presetTitle(name string) string {
	text, _ := config.Preset(name)
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(line, "# ")
}
