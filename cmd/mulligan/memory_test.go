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
		waste := make([]byte, 64<<20)
		for i := 0; i < len(waste); i += 4096 {
			waste[i] = 1
		}
		before := released()
		runtime.KeepAlive(waste) // or the runtime might have given it back by itself before
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
