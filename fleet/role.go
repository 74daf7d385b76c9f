package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// Role is the part of the work that an endpoint does in disaggregated serving, where one engine computes the prompt and
// another the answer.
type Role string

// The roles. The zero value does all the work.
const (
	RoleBoth    Role = ""
	RolePrefill Role = "prefill" // computes prompts for decoders; takes no whole requests
	RoleDecode  Role = "decode"  // answers whole requests, and those whose prompt another engine computed
)

// ParseRole parses a role in a configuration: prefill, decode, both, or "" for both.
func ParseRole(s string) (Role, error) {
	switch strings.ToLower(s) {
	case "", "both":
		return RoleBoth, nil
	case string(RolePrefill):
		return RolePrefill, nil
	case string(RoleDecode):
		return RoleDecode, nil
	}
	return RoleBoth, fmt.Errorf("%q is not a role; known: prefill, decode, both", s)
}

// String is the word in configurations and messages: prefill, decode or both.
func (r Role) String() string {
	if r == RoleBoth {
		return "both"
	}
	return string(r)
}

// Takes reports whether an endpoint of this role may take leg l.
func (r Role) Takes(l Leg) bool {
	if l == LegPrefill {
		return r != RoleDecode
	}
	return r != RolePrefill
}

// Leg is the part of a request that a reservation is for.
type Leg uint8

// The legs. The zero value is the whole request.
const (
	LegUnsplit Leg = iota // prompt and answer at one endpoint
	LegPrefill            // the prompt; its KV cache is handed to the endpoint of the decode leg
	LegDecode             // the answer; the KV cache of the prompt comes from the endpoint of the prefill leg
)

// String is the metric label and log word of the leg.
func (l Leg) String() string {
	switch l {
	case LegUnsplit:
		return "whole"
	case LegPrefill:
		return "prefill"
	case LegDecode:
		return "decode"
	default:
		return "unknown"
	}
}

// CheckRoles reports a fleet with prefillers and no decoder, or the reverse. It is meant for static fleets; a
// discovered one may become complete later.
func CheckRoles(endpoints []Endpoint) error {
	var prefill, decode, both int
	for i := range endpoints {
		switch endpoints[i].Role {
		case RolePrefill:
			prefill++
		case RoleDecode:
			decode++
		case RoleBoth:
			both++
		}
	}
	switch {
	case prefill > 0 && decode+both == 0:
		return errors.New(
			"there are endpoints with the role prefill and none that decodes: declare at least one with the role " +
				"decode or both",
		)
	case decode > 0 && prefill+both == 0:
		return errors.New(
			"there are endpoints with the role decode and none that computes prompts: " +
				"declare at least one with the role prefill or both, or leave the role out",
		)
	}
	return nil
}
