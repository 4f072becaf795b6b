package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

const versionUsage = `Usage: mulligan version

Prints mulligan's version, Go's, and the platform.
`

func runVersion(t terminal, args []string) error {
	if _, err := newFlags("version", versionUsage).parse(t, args, 0); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "mulligan %s %s %s/%s\n", currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// currentVersion is what the linker was given, else what Go knows of the build:
// the module's version, or the commit it was built from.
func currentVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
