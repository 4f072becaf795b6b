package blackbox

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"testing"
)

// command runs mulligan to its end, in an empty directory.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return commandIn(t, t.TempDir(), nil, args...)
}

// commandIn runs it in a directory with more environment.
func commandIn(t *testing.T, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = dir, append(environment(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("mulligan %q: %v (%v)\n%s%s", args, err, ctx.Err(), &out, &errs)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
