package main

import (
	"errors"
	"io"
	"io/fs"
	"sync"
)

// output is standard output. It remembers the first error of writing: what was
// asked for has not been given then, whatever else went well.
type output struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer. After an error nothing more is written.
func (o *output) Write(b []byte) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		n, o.err = o.w.Write(b)
	}
	return n, o.err
}

// failed returns what went wrong, as a mistake that can be reported.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	reason := o.err
	var path *fs.PathError
	if errors.As(reason, &path) {
		reason = path.Err
	}
	return failure(o.err, "", "cannot write to standard output: %s", reason)
}
