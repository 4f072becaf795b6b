package main

import (
	"context"
	"errors"
	"fmt"

	"mulligan/proxy/certs"
)

const caUsage = `Usage: mulligan ca [--config F]

Prints the certificate of the local CA's root as PEM. Clients have to trust it
for upstreams with tls.intercept, and for listeners with tls: {internal: true}.
It is kept in data_dir, and made there when there is none yet.

` + configUsage

func runCA(t terminal, args []string) error {
	_, cfg, err := loadAsked(t, "ca", caUsage, args)
	if err != nil {
		return err
	}
	ca, err := loadCA(context.Background(), cfg.DataDir)
	if err != nil {
		return err
	}
	if ca.Made() {
		fmt.Fprintf(t.err, "note: there was no local CA in %s: this one is new\n", cfg.DataDir)
	}
	fmt.Fprintf(t.out, "%s", ca.RootPEM())
	return nil
}

// loadCA returns the local CA that is kept in the data directory. What is wrong
// there comes with a hint.
func loadCA(ctx context.Context, dir string) (*certs.Authority, error) {
	ca, err := certs.Load(ctx, dir)
	if wrong, ok := errors.AsType[*certs.StorageError](err); ok {
		return nil, failure(err, wrong.Hint, "the local CA: %s", wrong)
	}
	return ca, err
}
