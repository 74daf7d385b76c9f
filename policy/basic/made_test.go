package basic

import (
	"github.com/warmpath/warmpath/pick"
)

// makeBasic makes a policy of this package by name.
func makeBasic(name string) pick.Policy {
	switch name {
	case "consistent_hash":
		return NewConsistentHash(ConsistentHashConfig{}.WithDefaults())
	case "least_requests":
		return NewLeastRequests()
	case "least_tokens":
		return NewLeastTokens()
	case "power_of_two":
		return NewPowerOfTwo()
	case "random":
		return NewRandom()
	case "rendezvous":
		return NewRendezvous()
	case "round_robin":
		return NewRoundRobin()
	case "session":
		return NewSession(NewLeastTokens())
	}
	panic(name)
}
