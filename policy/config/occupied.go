package config

import "net/netip"

// occupied are the addresses that listeners have, and the names below for what
// their ports are taken by, each with the number of the first that has it. Two
// listeners collide where they cannot both have their address. Which address a
// name stands for is not known here, but for localhost.
type occupied map[address]int

const (
	something   = "*"          // any address at all
	notIPv6     = "* not IPv6" // one that 0.0.0.0 stands for, or may
	everything  = "[::]"       // all of the machine's addresses: IPv4 too
	everyIPv4   = "0.0.0.0"    // all of the machine's but for IPv6
	thisMachine = "localhost"
)

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// add remembers that the listener of this number has address a.
func (o occupied) add(a address, number int) {
	ways := []address{a.canonical(), {name: something, port: a.port}}
	if !a.ip.Is6() || a.everywhere() {
		ways = append(ways, address{name: notIPv6, port: a.port})
	}
	for _, way := range ways {
		if _, taken := o[way]; !taken {
			o[way] = number
		}
	}
}

// first returns the number of the first listener that collides with one at a.
func (o occupied) first(a address) (number int, ok bool) {
	if a.port == 0 {
		return 0, false
	}
	for _, way := range a.rivals() {
		if n, taken := o[way]; taken && (!ok || n < number) {
			number, ok = n, true
		}
	}
	return number, ok
}

// canonical is the same for all spellings of every address.
func (a address) canonical() address {
	switch {
	case !a.everywhere():
		return a
	case a.ip.Is4():
		return address{name: everyIPv4, port: a.port}
	}
	return address{name: everything, port: a.port}
}

// rivals returns what collides with an address.
func (a address) rivals() []address {
	named := func(name string) address { return address{name: name, port: a.port} }
	switch a.canonical().name {
	case everything:
		return []address{named(something)}
	case everyIPv4:
		return []address{named(notIPv6)}
	}
	rivals := []address{a, named(everything)}
	if !a.ip.Is6() {
		rivals = append(rivals, named(everyIPv4))
	}
	switch {
	case a.name == thisMachine:
		rivals = append(rivals, address{ip: loopback4, port: a.port}, address{ip: netip.IPv6Loopback(), port: a.port})
	case a.ip == loopback4 || a.ip == netip.IPv6Loopback():
		rivals = append(rivals, named(thisMachine))
	}
	return rivals
}
