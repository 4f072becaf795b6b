package main

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// TestGiveBack: what is not used any more goes back to the system, but not at
// every call.
func TestGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := giveBack()
		released := func() uint64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapReleased
		}
		waste := func() {
			b := make([]byte, 64<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			runtime.KeepAlive(b)
		}
		waste()
		before := released()
		free()
		after := released()
		if after < before+32<<20 {
			t.Errorf("%d bytes were given back of 64 MiB", after-before)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		collections := m.NumForcedGC
		free()
		runtime.ReadMemStats(&m)
		if m.NumForcedGC != collections {
			t.Error("collected again at once")
		}
	})
}
