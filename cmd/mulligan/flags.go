package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"mulligan/policy/config"
)

// errHelped ends a verb that was asked for its usage only.
var errHelped = errors.New("usage was printed")

// flags are the flags of one verb.
type flags struct {
	*flag.FlagSet
	usage string
}

func newFlags(name, usage string) *flags {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // report says what is wrong
	set.Usage = func() {}
	return &flags{set, usage}
}

// parse reads the arguments, flags before and after the others, and returns the
// others, which are at most so many.
func (f *flags) parse(t terminal, args []string, most int) ([]string, error) {
	var others []string
	for {
		if err := f.Parse(args); err != nil {
			return nil, f.explain(t, err)
		}
		if f.NArg() == 0 {
			break
		}
		ended := len(args) > f.NArg() && args[len(args)-f.NArg()-1] == "--"
		if ended {
			others = append(others, f.Args()...)
			break
		}
		others = append(others, f.Arg(0))
		args = f.Args()[1:]
	}
	if len(others) > most {
		return nil, misuse("`mulligan "+f.Name()+" -h` shows the usage", "unexpected argument %q", others[most])
	}
	return others, nil
}

// explain turns the flag package's error into a mistake. Its errors have no
// types, so the name of an unknown flag is taken from the text.
func (f *flags) explain(t terminal, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(t.out, f.usage)
		return errHelped
	}
	hint := "`mulligan " + f.Name() + " -h` shows the flags"
	if unknown, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		var names []string
		f.VisitAll(func(one *flag.Flag) { names = append(names, one.Name) })
		if near := config.Nearest(unknown, names); near != "" {
			hint = "did you mean " + dashed(near) + "?"
		}
		return misuse(hint, "%s has no flag %s", f.Name(), dashed(unknown))
	}
	return misuse(hint, "%s", err.Error())
}

// dashed writes a flag as people do: -X, --config.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
