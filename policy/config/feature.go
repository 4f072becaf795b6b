package config

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// offWord is written instead of a feature's map to turn an inherited one off.
const offWord = "off"

// feature is what is off unless it is written. Its zero value is off.
type feature[V comparable] struct {
	keys    object[V]
	builtin V      // what holds for the keys that nobody wrote
	example string // a whole value, for hints
}

// turnedOn is a field for a feature. A map turns it on, be it an empty one, and is
// read over what is inherited, or over what is built in where that is off.
func turnedOn[T any, V comparable](name string, f *feature[V], part func(*T) *V) field[T] {
	return key(name, f.read, part).holding(f.keys.keys)
}

func (f *feature[V]) read(d *decoder, n *yaml.Node, v *V) {
	var none V
	switch {
	case d.follow(n) == nil:
	case !turnsOn(n):
		f.readWord(d, n, v)
	default:
		if *v == none {
			*v = f.builtin
		}
		f.keys.read(d, n, v)
	}
}

// turnsOn reports whether the value of a feature is no single word. Nothing written
// is an empty map.
func turnsOn(n *yaml.Node) bool {
	target := resolve(n)
	return target.Kind != yaml.ScalarNode || isNull(target)
}

// readWord reads the one word that can stand instead of the map.
func (f *feature[V]) readWord(d *decoder, n *yaml.Node, v *V) {
	s, ok := d.scalar(n)
	if !ok {
		return
	}
	if s.text == offWord {
		*v = *new(V)
		return
	}
	hint := "write a map such as " + f.example + ", or " + offWord
	switch strings.ToLower(s.raw) {
	case "on", "yes", "y", "true":
		hint = "write " + f.example
	case "off", "no", "n", "false", "none", "0":
		hint = "write " + offWord
	}
	d.failHint(n, hint, "%s is neither a map (key: value) nor %s", s, offWord)
}
