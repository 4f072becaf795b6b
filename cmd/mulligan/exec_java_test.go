package main

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"mulligan/proxy/certs"
)

func TestTrustStore(t *testing.T) {
	var ders [][]byte
	for range 3 {
		ca, err := certs.New([]string{"x.example.com"})
		if err != nil {
			t.Fatal(err)
		}
		ders = append(ders, ca.Root().Raw)
	}
	data := trustStore(slices.Concat(ders, [][]byte{[]byte("no certificate")}), time.Now())
	got, err := readTrustStore(data)
	if err != nil || !slices.EqualFunc(got, ders, bytes.Equal) {
		t.Errorf("%d certificates come back of %d (%v)", len(got), len(ders), err)
	}
	for cut := range len(data) - jksDigestLen {
		if got, err := readTrustStore(data[:cut]); err == nil {
			t.Fatalf("cut off after %d bytes of %d it has %d certificates", cut, len(data), len(got))
		}
	}
}

// An empty store, byte by byte, as keytool writes it: the digest is of
// "changeit" and the words that the format has.
func TestTrustStoreBytes(t *testing.T) {
	want := []byte("\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x00" +
		"\xe2\x68\x6e\x45\xfb\x43\xdf\xa4\xd9\x92\xdd\x41\xce\xb6\xb2\x1c\x63\x30\xd7\x92")
	if got := trustStore(nil, time.Now()); !bytes.Equal(got, want) {
		t.Errorf("an empty store is %x", got)
	}
}

func FuzzReadTrustStore(f *testing.F) {
	f.Add(trustStore(nil, time.Now()))
	ca, err := certs.New([]string{"x.example.com"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(trustStore([][]byte{ca.Root().Raw}, time.Now()))
	f.Add(binary.BigEndian.AppendUint32(nil, jksMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readTrustStore(data)
		if err != nil {
			return
		}
		total := 0
		for _, der := range got {
			total += len(der)
		}
		if total > len(data) {
			t.Errorf("%d bytes of certificates in %d", total, len(data))
		}
	})
}
