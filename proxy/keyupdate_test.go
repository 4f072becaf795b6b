package proxy_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mulligan/policy"
)

// expandLabel is HKDF-Expand-Label (RFC 8446 7.1), without a context.
func expandLabel(t *testing.T, secret []byte, label string, n int) []byte {
	t.Helper()
	var info bytes.Buffer
	binary.Write(&info, binary.BigEndian, uint16(n))
	info.WriteByte(byte(len("tls13 " + label)))
	info.WriteString("tls13 " + label)
	info.WriteByte(0)
	out, err := hkdf.Expand(sha256.New, secret, info.String(), n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// keyUpdate makes a client's record with a KeyUpdate that asks for one in return (RFC
// 8446 4.6.3); seq is the number of application records before it.
func keyUpdate(t *testing.T, keylog string, seq uint64) []byte {
	t.Helper()
	var secret []byte
	for line := range strings.Lines(keylog) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, _ = hex.DecodeString(f[2])
		}
	}
	key, nonce := expandLabel(t, secret, "key", 16), expandLabel(t, secret, "iv", 12)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		nonce[4+i] ^= byte(seq >> (8 * (7 - i)))
	}
	plain := []byte{24, 0, 0, 1, 1, 22} // key_update, update_requested; a handshake record
	head := []byte{23, 3, 3, 0, byte(len(plain) + aead.Overhead())}
	return append(head, aead.Seal(nil, nonce, plain, head)...)
}

// TestKeyUpdateOfAClientThatDoesNotRead: the answer to a KeyUpdate waits for what is
// being written, and that for the client. Nobody else may wait with them: this once
// stopped the watcher, and with it the whole proxy.
func TestKeyUpdateOfAClientThatDoesNotRead(t *testing.T) {
	var written atomic.Int64
	i := intercept(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/large" {
			io.WriteString(w, "small")
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(64<<20))
		p := make([]byte, 64<<10)
		for range 1024 {
			n, err := w.Write(p)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	}, func(u *policy.Upstream) { u.Default.Timeout.Idle = 2 * time.Second })
	conn, r := call(t, i.srv)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", i.host, i.host)
	readHead(r)
	var keys bytes.Buffer
	c := tls.Client(conn, &tls.Config{ServerName: "api.localhost", RootCAs: i.ca.pool(), KeyLogWriter: &keys, MinVersion: tls.VersionTLS13})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if s := c.ConnectionState().CipherSuite; s != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("cipher suite %x: the record is made for another one", s)
	}
	fmt.Fprintf(c, "GET /large HTTP/1.1\r\nHost: %s\r\n\r\n", i.host)
	for last, same := int64(-1), 0; same < 20; time.Sleep(10 * time.Millisecond) { // until all buffers are full
		if n := written.Load(); n == last && n > 0 {
			same++
		} else {
			last, same = n, 0
		}
	}
	conn.Write(keyUpdate(t, keys.String(), 1))
	other := i.client(t, false)
	other.Timeout = 20 * time.Second
	for end := time.Now().Add(time.Second); time.Now().Before(end); { // the watcher looks many times
		get(t, other, "https://"+i.host+"/small")
	}
	if !eventually(func() bool { return gauge(t, i.reg, "mulligan_requests_in_flight", "api") == 0 }) {
		t.Error("the answer that nobody reads is never given up")
	}
}
