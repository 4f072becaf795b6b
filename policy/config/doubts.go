package config

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// doubts are the paths of keys of which it is not known what they are meant to
// hold: their value is wrong, or stands there twice, or another key was probably
// meant to be this one. Checks across keys keep silent about those, since
// mending the one error may be all that there is to do. They do not keep silent
// about what else is wrong: only the key itself is in doubt, not those beside or
// above it.
type doubts map[string]bool

// add puts the key at path in doubt, or the list whose item is there.
func (d doubts) add(path string) {
	if strings.HasSuffix(path, "]") {
		path = path[:strings.LastIndexByte(path, '[')]
	}
	d[path] = true
}

// misplaced puts those keys in doubt that a misplaced one was probably meant to
// be: those of its name in a map around it, or beside it or such a map. place is
// where there is such a key, as Keys has it.
func (d doubts) misplaced(path, place, name string) {
	around, below := path, ""
	for {
		inside := false
		below, inside = strings.CutPrefix("."+place, general(around))
		if inside && (below == "" || below[0] == '.') {
			break // at the latest with all of the file around
		}
		around = parent(around)
	}
	d[strings.TrimPrefix(around+below+"."+name, ".")] = true
}

// parent is a path without its last step.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// general is a path as Keys has it, with a dot in front.
func general(path string) string {
	steps := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })
	text := ""
	for i, step := range steps {
		switch {
		case strings.HasSuffix(step, "]"):
		case i == 1 && steps[0] == "upstreams":
			text += ".NAME"
		default:
			text += "." + step
		}
	}
	return text
}

// written are the keys that stand in a map, merged ones included, whether their
// values are right or wrong.
type written struct {
	path   string // of the map
	values map[string]*yaml.Node
	doubts doubts
}

// at returns the value of a key; nil where it does not stand in the map.
func (w written) at(name string) *yaml.Node { return w.values[name] }

// right is at for values that are right.
func (w written) right(name string) *yaml.Node {
	if w.doubtful(name) {
		return nil
	}
	return w.values[name]
}

// doubtful reports whether one of the keys is in doubt, whether it stands in the
// map or not. A name with dots is of a key further in.
func (w written) doubtful(names ...string) bool {
	for _, name := range names {
		if w.doubts[join(w.path, name)] {
			return true
		}
	}
	return false
}
