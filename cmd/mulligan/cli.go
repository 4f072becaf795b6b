package main

import (
	"fmt"
	"io"
	"strings"

	"mulligan/policy/config"
)

// Exit statuses.
const (
	exitDone    = 0
	exitFailed  = 1 // refused or failed
	exitMisused = 2 // wrong usage
)

// terminal is what a verb has of its surroundings.
type terminal struct {
	out, err io.Writer
	env      config.Lookup
}

// verb is one command of mulligan.
type verb struct {
	name    string
	summary string // for the list of verbs
	usage   string // what -h shows
	run     func(t terminal, args []string) error
}

// verbs returns the commands in the order in which help lists them.
func verbs() []verb {
	return []verb{
		{"serve", "run the proxy", serveUsage, runServe},
		{"check", "say what is wrong with a configuration", checkUsage, runCheck},
		{"explain", "say what would become of a request, and why", explainUsage, runExplain},
		{"exec", "run a command with all its HTTP going through a proxy of its own", execUsage, runExec},
		{"preset", "show a vendor's retry rules", presetUsage, runPreset},
		{"demo", "see it work: a flaky upstream, clients, and mulligan between them", demoUsage, runDemo},
		{"ca", "print the local CA's root certificate", caUsage, runCA},
		{"version", "print the version", versionUsage, runVersion},
	}
}

// run does what the arguments say and returns the exit status.
func run(args []string, t terminal) int {
	out := &output{w: t.out}
	t.out = out
	status := dispatch(args, t)
	if err := out.failed(); err != nil && status == exitDone {
		return report(t, err)
	}
	return status
}

// dispatch runs the verb that the arguments name.
func dispatch(args []string, t terminal) int {
	if len(args) == 0 {
		fmt.Fprint(t.err, usageText())
		return exitMisused
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return report(t, help(t, rest))
	case "-version", "--version":
		name = "version"
	}
	v, err := findVerb(name)
	if err != nil {
		return report(t, err)
	}
	return report(t, v.run(t, rest))
}

// findVerb returns the verb of this name.
func findVerb(name string) (verb, error) {
	names := make([]string, 0, 8)
	for _, v := range verbs() {
		if v.name == name {
			return v, nil
		}
		names = append(names, v.name)
	}
	hint := "`mulligan help` lists the commands"
	if near := config.Nearest(name, append(names, "help")); near != "" {
		hint = "did you mean `mulligan " + near + "`?"
	}
	return verb{}, misuse(hint, "there is no command %q", name)
}

// help prints the list of verbs, or one verb's usage.
func help(t terminal, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(t.out, usageText())
		return nil
	}
	v, err := findVerb(args[0])
	if err != nil {
		return err
	}
	if len(args) > 1 {
		return misuse("`mulligan help` lists the commands", "unexpected argument %q", args[1])
	}
	fmt.Fprint(t.out, v.usage)
	return nil
}

func usageText() string {
	var b strings.Builder
	b.WriteString("mulligan sits between a service and the flaky HTTP upstreams it calls, and retries what is safe to retry.\n\n" +
		"Usage: mulligan COMMAND [FLAGS]\n\nCommands:\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "  %-9s %s\n", v.name, v.summary)
	}
	b.WriteString("\n`mulligan COMMAND -h` says more of one. New here? Begin with `mulligan demo`.\n")
	return b.String()
}
