package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// Role says which part of the work an endpoint is there for, where prompts are computed by other engines than those that
// answer (disaggregated serving).
type Role string

// The roles. The zero value does both.
const (
	RoleBoth    Role = ""
	RolePrefill Role = "prefill" // computes prompts for the endpoints that decode; takes no whole requests
	RoleDecode  Role = "decode"  // answers: whole requests, and those whose prompt was computed elsewhere
)

// ParseRole reads a role as configurations name it: prefill, decode, both, or nothing for both.
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

// String is the word for people: prefill, decode or both.
func (r Role) String() string {
	if r == RoleBoth {
		return "both"
	}
	return string(r)
}

// Takes reports whether an endpoint of the role may be given such a leg.
func (r Role) Takes(l Leg) bool {
	if l == LegPrefill {
		return r != RoleDecode
	}
	return r != RolePrefill
}

// Leg says which part of a request a reservation is for.
type Leg uint8

// The legs. The zero value is no leg but the whole request.
const (
	LegWhole   Leg = iota // prompt and answer at one endpoint
	LegPrefill            // the prompt; its KV cache is handed to the endpoint of the decode leg
	LegDecode             // the answer; the KV cache of the prompt comes from the endpoint of the prefill leg
)

// String is the metric label and log word of the leg.
func (l Leg) String() string {
	switch l {
	case LegWhole:
		return "whole"
	case LegPrefill:
		return "prefill"
	case LegDecode:
		return "decode"
	default:
		return "unknown"
	}
}

// CheckRoles reports roles that have no peers: prompts that are computed for nobody, or answers that wait for nobody's prompts.
// It is for a fleet that is declared once and for all; one that is discovered may be complete later.
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
		return errors.New("the role prefill is given and none decodes: declare at least one endpoint with the role decode or both")
	case decode > 0 && prefill+both == 0:
		return errors.New("the role decode is given and none computes prompts for it: declare at least one endpoint with the role prefill or both, or leave the role out")
	}
	return nil
}
