//go:build !race

package certs

const raceEnabled = false
