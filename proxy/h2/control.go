package h2

import "golang.org/x/net/http2"

// control is frames that wait to be written before any stream's.
type control struct {
	b      []byte
	forced int // how many of them the peer has made us write
}

// Write takes what the Framer writes.
func (q *control) Write(p []byte) (int, error) {
	q.b = append(q.b, p...)
	return len(p), nil
}

// take moves what waits behind dst.
func (q *control) take(dst []byte) []byte {
	dst = append(dst, q.b...)
	q.b, q.forced = q.b[:0], 0
	if cap(q.b) > pooledText {
		q.b = nil
	}
	return dst
}

// forced counts a frame that the peer has made us write. One that does not read
// them cannot make us keep any number.
func (c *conn) forced() error {
	if c.ctl.forced++; c.ctl.forced > controlMost {
		return tooMuch("too many answers wait to be read")
	}
	return nil
}

// The writers of control frames: the Framer's only error would be ours, an id that
// is none, and the writer below takes everything.

func (c *conn) writeReset(id uint32, code http2.ErrCode) {
	c.framer.WriteRSTStream(id, code)
	c.wake.Signal()
}

func (c *conn) writeWindowUpdate(id uint32, n int64) {
	c.framer.WriteWindowUpdate(id, uint32(n))
	c.wake.Signal()
}

func (c *conn) writePing(ack bool, data [8]byte) {
	c.framer.WritePing(ack, data)
	c.wake.Signal()
}

func (c *conn) writeSettings(s ...http2.Setting) {
	c.framer.WriteSettings(s...)
	c.wake.Signal()
}

func (c *conn) writeSettingsAck() {
	c.framer.WriteSettingsAck()
	c.wake.Signal()
}

// goAway says that streams above last are not, and will not be, processed.
func (c *conn) goAway(last uint32, code http2.ErrCode, reason string) {
	if !c.server {
		last = 0 // of the streams that servers begin: there are none
	}
	var debug []byte
	if code != http2.ErrCodeNo {
		debug = []byte(reason)
	}
	c.framer.WriteGoAway(last, code, debug)
	c.wake.Signal()
}
