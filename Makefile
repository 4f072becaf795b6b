# make test is all that a change has to pass; see .ci/run.

# Where git knows none, the binary says what Go knows of it.
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
FUZZTIME ?= 5m
IMAGE    ?= mulligan:$(or $(VERSION),latest)
DOCKER   ?= docker

.DEFAULT_GOAL := build
.PHONY: build test bench fuzz lint vuln demo image

build:
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/mulligan ./cmd/mulligan

test:
	@.ci/tools test
	go vet ./...
	go test -race -count=1 -timeout 20m ./... # the black-box tests build what they test: a cached result knows nothing of it
	go test -count=1 -run Alloc ./proxy ./proxy/h1 ./proxy/certs # which the race detector makes them skip

# Beside HAProxy, on this machine; about three minutes.
bench: build
	@.ci/tools bench
	go run ./cmd/bench -mulligan bin/mulligan

# Each fuzzer for FUZZTIME, which it is not to spend on making inputs shorter.
fuzz:
	@set -e; for package in $$(go list ./...); do \
		for fuzzer in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$fuzzer"; \
			go test -run '^$$' -fuzz "^$$fuzzer\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "error: not in gofmt's form" >&2; exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

# Apart from lint, since it asks Go's vulnerability database over the network.
vuln:
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

demo:
	go run ./cmd/mulligan demo

image:
	$(DOCKER) build --build-arg VERSION=$(VERSION) -t $(IMAGE) .
