package config

import (
	"embed"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"mulligan/policy"
)

// presetFiles are vendors' own retry rules, each with its sources and their date.
//
//go:embed presets/*.yaml
var presetFiles embed.FS

const (
	presetFolder = "presets"
	presetSuffix = ".yaml"
)

// Presets returns the names of the presets, sorted.
func Presets() []string {
	files, err := presetFiles.ReadDir(presetFolder)
	if err != nil {
		panic("config: presets: " + err.Error()) // they are part of the program
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(file.Name(), presetSuffix)
	}
	slices.Sort(names)
	return names
}

// Preset returns the file of a preset, comments included.
func Preset(name string) (text string, ok bool) {
	if !slices.Contains(Presets(), name) {
		return "", false
	}
	data, err := presetFiles.ReadFile(presetFolder + "/" + name + presetSuffix)
	return string(data), err == nil
}

// presetRoots are the presets as YAML, parsed at the first use.
var presetRoots = sync.OnceValue(func() map[string]*yaml.Node {
	roots := make(map[string]*yaml.Node)
	for _, name := range Presets() {
		text, _ := Preset(name)
		root, wrong := parseYAML([]byte(text))
		if wrong != nil {
			panic("config: preset " + name + ": " + wrong.Message)
		}
		roots[name] = root
	}
	return roots
})

// presetKeys is what a preset may have: what a route may, of `retry`.
var presetKeys = object[policy.Upstream]{fields: fields(
	section("retry", &routeRetryKeys, func(u *policy.Upstream) *policy.Retry { return &u.Default.Retry }),
)}

var presetName = oneOf(presetChoices()...)

func presetChoices() []choice[string] {
	var choices []choice[string]
	for _, name := range Presets() {
		choices = append(choices, choice[string]{name, name})
	}
	return choices
}

// readPreset reads the name of a preset, and the preset over what the upstream
// inherits from `defaults`. It comes before the upstream's own keys.
func readPreset(d *decoder, n *yaml.Node, u *policy.Upstream) {
	if presetName(d, n, &u.Preset); u.Preset == "" {
		return
	}
	p := &decoder{
		file: "preset " + u.Preset, env: func(string) (string, bool) { return "", false }, keys: d.keys,
		kept: d.kept, claims: newClaims(), doubts: make(doubts),
	}
	presetKeys.read(p, presetRoots()[u.Preset], u)
	if d.kept = p.kept; len(p.errors) > 0 {
		d.stop(n, "%s", p.errors[0].bare)
	}
}
