package dashboard_test

import (
	"io"
	"net/http"
	"testing"
)

// read returns the whole body of an answer.
func read(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
