package config

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// reader reads the value n over what v holds already. What is wrong it reports
// to d and leaves v alone.
type reader[V any] func(d *decoder, n *yaml.Node, v *V)

// object is the schema of a map that fills a T.
type object[T any] struct {
	fields []field[T] // read in this order, whatever the file's
	// check sees the map whole. May be nil.
	check func(d *decoder, v *T, w written)
}

// field is one key of a map that fills a T.
type field[T any] struct {
	name     string
	read     reader[T]
	below    func() []string // the keys inside its value; nil where it has none
	required bool
	given    func(*T) bool // reports that a required key need not be written: it is inherited; nil: it never is
	refused  string        // why it is an error to write it; "" for a key that works
}

// must makes a field one that may not be left out.
func (f field[T]) must() field[T] {
	f.required = true
	return f
}

// mustUnless makes a field one that may only be left out where it is inherited.
func (f field[T]) mustUnless(given func(*T) bool) field[T] {
	f.required, f.given = true, given
	return f
}

// missed reports whether a map without the field lacks it.
func (f *field[T]) missed(v *T) bool { return f.required && (f.given == nil || !f.given(v)) }

// holding says which keys stand inside the field's value.
func (f field[T]) holding(below func() []string) field[T] {
	f.below = below
	return f
}

// key is a field whose value is read into a part of T.
func key[T, V any](name string, read reader[V], part func(*T) *V) field[T] {
	return field[T]{name: name, read: func(d *decoder, n *yaml.Node, v *T) { read(d, n, part(v)) }}
}

// section is a field whose value is a map of its own.
func section[T, V any](name string, below *object[V], part func(*T) *V) field[T] {
	return key(name, below.read, part).holding(below.keys)
}

// lift makes the fields of a V fields of the T that it is a part of.
func lift[T, V any](fields []field[V], part func(*T) *V) []field[T] {
	lifted := make([]field[T], len(fields))
	for i, f := range fields {
		lifted[i] = field[T]{name: f.name, below: f.below, required: f.required, refused: f.refused}
		if f.read != nil {
			lifted[i].read = key(f.name, f.read, part).read
		}
		if f.given != nil {
			lifted[i].given = func(v *T) bool { return f.given(part(v)) }
		}
	}
	return lifted
}

// refused are keys that are known, but an error here.
func refused[T any](why string, names ...string) []field[T] {
	fields := make([]field[T], len(names))
	for i, name := range names {
		fields[i] = field[T]{name: name, refused: why}
	}
	return fields
}

// notYet are keys that the documentation has and this version has not.
func notYet[T any](names ...string) []field[T] {
	return refused[T]("is not available in this version", names...)
}

// itself is the part that is the whole.
func itself[T any](v *T) *T { return v }

// read reads the map n over v. Nothing written is an empty map.
func (o *object[T]) read(d *decoder, n *yaml.Node, v *T) {
	if w, ok := o.walk(d, n, v); ok && o.check != nil {
		o.check(d, v, w)
	}
}

// walk is read without the check of the whole. It returns false where there is
// no map at all.
func (o *object[T]) walk(d *decoder, n *yaml.Node, v *T) (written, bool) {
	entries, ok := d.entries(n)
	if !ok {
		return written{}, false
	}
	w := written{d.path, make(map[string]*yaml.Node), d.doubts}
	misspelt := make(map[string][]*yaml.Node)
	for _, e := range entries {
		switch f := o.find(e.key.Value); {
		case f == nil:
			meant := d.unknown(e.key, o.names())
			misspelt[meant] = append(misspelt[meant], e.value)
		case f.refused != "":
			d.complain(e.key, "", "%s %s", quote(f.name), f.refused)
		case e.again:
			f.readAgain(d, e.value, *v)
		default:
			w.values[f.name] = e.value
		}
	}
	for _, f := range o.fields {
		if value := w.at(f.name); value != nil {
			d.within(f.name, func() { f.read(d, value, v) })
		}
	}
	for _, f := range o.fields { // the errors inside a section are told in the same run as its misspelt name
		for _, value := range misspelt[f.name] {
			if f.below != nil && resolve(value).Kind != yaml.ScalarNode {
				f.readAgain(d, value, *v)
			}
		}
	}
	for _, f := range o.fields {
		if f.missed(v) && w.at(f.name) == nil && !w.doubtful(f.name) {
			d.fail(n, "needs the key %s", f.name)
		}
	}
	return w, true
}

// readAgain reads a value that is not the field's for certain: a second one, or one
// under a misspelt name, over a copy of the map's.
func (f *field[T]) readAgain(d *decoder, n *yaml.Node, scratch T) {
	d.doubts.add(join(d.path, f.name))
	d.apart(func() { d.within(f.name, func() { f.read(d, n, &scratch) }) })
}

// apart reads what stands in the file a second time, for the errors in it: which
// of the two is meant is not known, so that it takes nothing that may stand in
// the file only once, and nothing is built upon it.
func (d *decoder) apart(read func()) {
	claims, doubts, listeners := d.claims, d.doubts, d.listeners
	d.claims, d.doubts = newClaims(), make(map[string]bool)
	read()
	d.claims, d.doubts, d.listeners = claims, doubts, listeners
}

func (o *object[T]) find(name string) *field[T] {
	for i := range o.fields {
		if o.fields[i].name == name {
			return &o.fields[i]
		}
	}
	return nil
}

// names returns the keys that work, in their order.
func (o *object[T]) names() []string {
	var names []string
	for _, f := range o.fields {
		if f.refused == "" {
			names = append(names, f.name)
		}
	}
	return names
}

// keys returns every key in and below the map, dotted.
func (o *object[T]) keys() []string {
	var keys []string
	for _, f := range o.fields {
		if f.refused != "" {
			continue
		}
		keys = append(keys, f.name)
		if f.below == nil {
			continue
		}
		for _, inner := range f.below() {
			keys = append(keys, f.name+"."+inner)
		}
	}
	return keys
}

// unknown reports a key that the map does not have, with the key that was
// probably meant, or the place where this one belongs. It returns the former,
// where there is one.
func (d *decoder) unknown(key *yaml.Node, names []string) (meant string) {
	if d.stopped {
		return ""
	}
	hint := ""
	places, within := d.places(key.Value)
	if meant = nearest(key.Value, names); meant != "" && !within {
		hint = "did you mean " + meant + "?"
		d.doubts.add(join(d.path, meant))
	} else if len(places) > 0 {
		meant = ""
		hint = "it belongs in " + oneOfWords(places)
		for _, place := range places {
			d.doubts.misplaced(d.path, place, key.Value)
		}
	}
	d.complain(key, hint, "unknown key %s", quote(key.Value))
	return meant
}

// places returns the maps that have a key of this name, at most three: those where
// it holds other keys before those where it is a single value, then the outermost
// first. Where some are inside the map here there are only these, and within is
// true: a key of exactly this name is then nearer than one that is only spelt like
// it. Else, where some are around the map here, there are only those.
func (d *decoder) places(name string) (places []string, within bool) {
	for _, key := range d.keys {
		if parent, ok := strings.CutSuffix(key, "."+name); ok {
			places = append(places, parent)
		}
	}
	single := func(place string) int {
		holds := func(key string) bool { return strings.HasPrefix(key, place+"."+name+".") }
		if slices.ContainsFunc(d.keys, holds) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(places, func(a, b string) int {
		return cmp.Or(cmp.Compare(single(a), single(b)), cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")))
	})
	here := general(d.path)
	if near := inner(places, here); len(near) > 0 {
		places, within = near, true
	} else if near := outer(places, here); len(near) > 0 {
		places = near
	}
	return places[:min(len(places), 3)], within
}

// inner returns the places that are inside the map here, which is as general has
// it.
func inner(places []string, here string) []string {
	var near []string
	for _, place := range places {
		if strings.HasPrefix("."+place, here+".") {
			near = append(near, place)
		}
	}
	return near
}

// outer returns the places that are around the map here.
func outer(places []string, here string) []string {
	var near []string
	for _, place := range places {
		if strings.HasPrefix(here+".", "."+place+".") {
			near = append(near, place)
		}
	}
	return near
}
