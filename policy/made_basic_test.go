package policy

import (
	"github.com/warmpath/warmpath/pick"
)

// makeBasic makes one of the policies of this package by name.
func makeBasic(name string) pick.Policy {
	switch name {
	case "consistent_hash":
		return newConsistentHash(ConsistentHashConfig{}.WithDefaults())
	case "least_requests":
		return newLeastRequests()
	case "least_tokens":
		return newLeastTokens()
	case "power_of_two":
		return newPowerOfTwo()
	case "random":
		return newRandom()
	case "rendezvous":
		return newRendezvous()
	case "round_robin":
		return newRoundRobin()
	case "session":
		return newSession(newLeastTokens())
	}
	panic(name)
}
