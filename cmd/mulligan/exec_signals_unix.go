//go:build unix && !linux

package main

import "os"

// moreSignals are those that not every system has.
func moreSignals() []os.Signal { return nil }
