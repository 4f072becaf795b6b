package main

import "fmt"

const checkUsage = `Usage: mulligan check [--config F]

Reads the configuration and says what is wrong with it: every error with file,
line, column and a hint. Starts nothing. Exit status 1 where there are errors.

` + configUsage

func runCheck(t terminal, args []string) error {
	f := newFlags("check", checkUsage)
	find := configFlag(f, t)
	if _, err := f.parse(t, args, 0); err != nil {
		return err
	}
	src, err := find()
	if err != nil {
		return err
	}
	cfg, err := src.load()
	if err != nil {
		return err
	}
	for _, warning := range cfg.Warnings {
		fmt.Fprintln(t.err, "warning:", warning)
	}
	routes := 0
	for _, u := range cfg.Upstreams {
		routes += len(u.Routes)
	}
	fmt.Fprintf(t.out, "ok: %s: %s, %s\n", src, count(len(cfg.Upstreams), "upstream"), count(routes, "route"))
	return nil
}
