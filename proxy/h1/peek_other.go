//go:build !unix

package h1

// hungUp cannot be asked here.
func hungUp(uintptr) bool { return false }

// silent cannot be asked here: no idle connection is trusted.
func silent(uintptr) bool { return false }

// pending cannot be asked here.
func pending(uintptr) bool { return false }

// unsent cannot be asked here.
func unsent(uintptr) int32 { return 0 }
