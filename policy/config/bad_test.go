package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mulligan/policy/config"
)

var update = flag.Bool("update", false, "write the messages of testdata/bad-*.yaml beside them")

const secret = "hunter2 swordfish"

// testEnvironment is what the files in testdata find in the environment.
func testEnvironment(t testing.TB) config.Lookup {
	return lookup(map[string]string{
		"TWO": "2", "EMPTY": "", "SECRET": secret, "CONTROL": "swordfish\x01", "CERTS": writeCertificates(t),
	})
}

func lookup(values map[string]string) config.Lookup {
	return func(name string) (string, bool) {
		value, set := values[name]
		return value, set
	}
}

// TestBad has one file for each rule, with exactly what is said about it.
func TestBad(t *testing.T) {
	env := testEnvironment(t)
	files, err := filepath.Glob("testdata/bad-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(file, env)
			if err == nil {
				t.Fatal("accepted")
			}
			if c != nil {
				t.Error("a configuration beside the error")
			}
			got := strings.ReplaceAll(err.Error(), "testdata/", "") + "\n"
			for _, leak := range []string{"hunter2", "swordfish"} {
				if strings.Contains(got, leak) {
					t.Errorf("a secret in the message:\n%s", got)
				}
			}
			compare(t, strings.TrimSuffix(file, ".yaml")+".txt", got)
		})
	}
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestErrorsAreInTheOrderOfTheFile(t *testing.T) {
	_, err := config.Load("testdata/bad-many.yaml", lookup(nil))
	var all *config.Errors
	if !errors.As(err, &all) || len(all.All) < 5 {
		t.Fatalf("got %v", err)
	}
	for i, e := range all.All[1:] {
		if before := all.All[i]; before.Line > e.Line || before.Line == e.Line && before.Column > e.Column {
			t.Errorf("%v stands before %v", before, e)
		}
	}
}
