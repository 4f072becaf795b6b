package main

import "fmt"

const checkUsage = `Usage: mulligan check [--config F]

Reads the configuration and says what is wrong with it: every error with file,
line, column and a hint. Starts nothing. Exit status 1 where there are errors.

` + configUsage

func runCheck(t terminal, args []string) error {
	src, cfg, err := loadAsked(t, "check", checkUsage, args)
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
