package main

import (
	"fmt"
	"strconv"
	"strings"

	"mulligan/policy"
	"mulligan/policy/config"
	"mulligan/proxy/h1"
)

// textFlag defines a flag and returns how to get its argument: nil where it was
// not given, which an empty one is not.
func textFlag(f *flags, name string) func() *string {
	var given *string
	f.Func(name, "", func(s string) error { given = &s; return nil })
	return func() *string { return given }
}

// fieldInto reads the argument of -H into a header.
func fieldInto(h *h1.Header) func(string) error {
	return func(s string) error {
		name, value, ok := strings.Cut(s, ":")
		if !ok || strings.Trim(name, " \t") != name || name == "" {
			return fmt.Errorf("want 'Name: value', not %q", s)
		}
		*h = append(*h, h1.Field{Name: []byte(name), Value: []byte(strings.Trim(value, " \t"))})
		return nil
	}
}

// readOutcome reads --status and --failure; nil is not given.
func (q *question) readOutcome(status, class *string) error {
	if status == nil && class == nil && q.response.Has("grpc-status") {
		ok := "200" // gRPC's own, however the call ended
		status = &ok
	}
	switch {
	case status == nil && class == nil && len(q.response) > 0:
		return misuse("add --status, such as --status 503", "--response-header needs the status of the response")
	case status == nil && class == nil && q.body != nil:
		return misuse("add --status, such as --status 503", "--response-body needs the status of the response")
	case status == nil && class == nil:
		return nil
	}
	q.given = true
	if class != nil {
		if err := q.readClass(*class); err != nil {
			return err
		}
	}
	if status != nil {
		if err := q.readStatus(*status); err != nil {
			return err
		}
	}
	switch {
	case class == nil:
	case status != nil && q.outcome.Class != policy.Truncated:
		return misuse("an attempt ends with a status or with a failure class; only a response that breaks off (truncated) has both",
			"--status and --failure %s exclude each other", *class)
	case status == nil && len(q.response) > 0:
		return misuse("use --status for a response that arrived", "--failure %s leaves no response with a header", *class)
	case class != nil && q.body != nil:
		return misuse("use --status alone for a response that arrived", "--failure %s leaves no response with a whole body", *class)
	}
	return nil
}

func (q *question) readClass(word string) error {
	c, ok := policy.ParseClass(word)
	if ok {
		q.outcome.Class = c
		return nil
	}
	hint := "it is one of " + strings.Join(classNames(), ", ")
	if _, err := strconv.Atoi(word); err == nil {
		hint = "for a status write --status " + word
	} else if near := config.Nearest(word, classNames()); near != "" {
		hint = "did you mean " + near + "?"
	}
	return misuse(hint, "there is no failure class %q", word)
}

// classNames are the names of the failure classes.
func classNames() []string {
	var names []string
	for _, c := range policy.Classes() {
		names = append(names, c.String())
	}
	return names
}

// readStatus takes what the lists of a configuration take as a single status.
func (q *question) readStatus(word string) error {
	status, err := strconv.Atoi(word)
	if err != nil {
		hint := "write a number such as 503"
		if near := config.Nearest(word, classNames()); near != "" {
			hint = "for a failure class write --failure " + near
		}
		return misuse(hint, "%q is no status", word)
	}
	if new(policy.Set).Add(word) != nil {
		return misuse("a status has three digits, such as 503", "--status is %s, and must be 100 to 999", word)
	}
	q.outcome.Status = status
	return nil
}
