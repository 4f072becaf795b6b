package h2

import "golang.org/x/net/http2"

// tableSize is what the peer said last about the HPACK table, until the next header
// block tells it that this was heard (RFC 7541 section 4.2).
type tableSize struct {
	changed    bool
	least, now uint32
}

func (t *tableSize) set(n uint32) {
	if !t.changed || n < t.least {
		t.least = n
	}
	t.changed, t.now = true, n
}

// apply tells the encoder, which never makes the table larger than it began.
func (t *tableSize) apply(e *encoder) {
	if t.changed {
		e.hpack.SetMaxDynamicTableSize(t.least)
		e.hpack.SetMaxDynamicTableSize(t.now)
		t.changed = false
	}
}

// settings applies the peer's SETTINGS and acknowledges them.
func (c *conn) settings(f *http2.SettingsFrame) error {
	c.mu.Lock()
	defer c.unlock()
	if f.IsAck() {
		return c.useless(1)
	}
	weight := float64(f.NumSettings()) // each may be work for every stream
	if c.settled {
		weight += settingsNoise
	}
	if err := c.useless(weight); err != nil {
		return err
	}
	if !c.settled {
		c.settled = true
		c.allowed(mostStreams) // where no limit is named
	}
	if err := f.ForeachSetting(c.setting); err != nil {
		return settingError(err)
	}
	c.writeSettingsAck()
	return c.forced()
}

// settingError gives what the Framer's module finds wrong with a value, or we do,
// its reason.
func settingError(err error) error {
	if code, ok := err.(http2.ConnectionError); ok {
		return &connError{http2.ErrCode(code), "invalid setting"}
	}
	return err
}

func (c *conn) setting(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.table.set(s.Val)
	case http2.SettingInitialWindowSize:
		return c.rewindow(int64(s.Val))
	case http2.SettingMaxConcurrentStreams:
		c.allowed(s.Val)
	case http2.SettingEnablePush:
		if !c.server && s.Val != 0 { // RFC 9113 section 6.5.2
			return violation("a server that enables push")
		}
	}
	return nil
}
