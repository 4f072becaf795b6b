package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"mulligan/policy/config"
)

// TestErrorsNameTheirFiles: what could not be read, or is no use, is what mends the
// configuration when it changes.
func TestErrorsNameTheirFiles(t *testing.T) {
	dir := writeCertificates(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	const text = "upstreams: {u: {hosts: [u.example], endpoints: [https://u.example], tls: {ca_file: gone.pem, " +
		"client_cert_file: broken.pem, client_key_file: client.key}}}\n"
	_, err := config.Parse(in("mulligan.yaml"), []byte(text), os.LookupEnv)
	want := []string{in("mulligan.yaml"), in("broken.pem"), in("client.key"), in("gone.pem")}
	if wrong, ok := err.(*config.Errors); !ok || !reflect.DeepEqual(wrong.Files, want) {
		t.Errorf("%#v, want %q", err, want)
	}
	_, err = config.Load(in("none.yaml"), os.LookupEnv)
	if wrong, ok := err.(*config.Errors); !ok || !reflect.DeepEqual(wrong.Files, []string{in("none.yaml")}) {
		t.Errorf("%#v, want its own file", err)
	}
}

func TestEmpty(t *testing.T) {
	for text, want := range map[string]bool{"": true, " \n\r\n": true, "# a comment\n": true, "\ufeff": true, "~": false, "{}": false, "via: true": false} {
		cfg, err := config.Parse("f.yaml", []byte(text), os.LookupEnv)
		if err == nil && cfg.Empty() != want || err != nil && want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if config.Default().Empty() {
		t.Error("no file is no empty one")
	}
}
