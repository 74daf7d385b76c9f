// Package ablation names what the router learns and can do without, so that a simulation can show what each of it is
// worth.
//
// It owns the list of names and nothing else. The packages that learn ask a Set, which costs a bit test; the router
// that serves has the empty one. docs/mechanisms.md has a figure for each name.
package ablation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Set is mechanisms that are switched off. The zero Set has them all on.
type Set uint64

// The mechanisms. What stands in their place is said with each.
const (
	AnswerCost       Set = 1 << iota // without roles an answer costs nothing beyond the time that it takes alone
	Answers                          // a conversation's answers are all found again in its endpoint's cache
	Capacity                         // caches hold a fixed share of what engines state
	Copies                           // nothing is gained by computing a prompt where it is not cached
	DecodeSpeed                      // every endpoint answers at the speed assumed at first
	FixedTime                        // the fixed time of a prompt is the one assumed at first
	Interruptions                    // a prompt delays no answers
	Late                             // prompts and answers that are not streamed are never late
	LaterTurns                       // conversations have as many turns as is assumed at first
	Links                            // transfers to one decoder do not delay each other
	Losses                           // all that is predicted to be cached is
	Occupancy                        // taken places and memory cost nothing
	Order                            // every engine computes its prompts in order of arrival
	PendingTransfers                 // a transfer that has not arrived counts as one that has
	PromptSpeed                      // every endpoint has the speed assumed at first
	Provisional                      // speeds are learnt when answers end, not at their first byte
	Queue                            // prompts are sent as they come
	Residence                        // a request leaves its place when its prompt is computed
	Returns                          // conversations come back at the fleet's mean rate of turns
	Spread                           // nothing keeps the numbers of new conversations even
	TransferSpeed                    // transfers have the speed assumed at first
	Utilisation                      // no endpoint counts as busy
	WarmUp                           // turns come as often as those seen in a window that is not full yet say
)

// Names lists the mechanisms by name, in the order of the constants.
func Names() []string {
	return []string{
		"answer_cost", "answers", "capacity", "copies", "decode_speed", "fixed_time",
		"interruptions", "late", "later_turns", "links", "losses", "occupancy", "order",
		"pending_transfers", "prompt_speed", "provisional", "queue", "residence", "returns",
		"spread", "transfer_speed", "utilisation", "warm_up",
	}
}

// Of is the set of the mechanisms that are named.
func Of(named ...string) (Set, error) {
	var s Set
	var errs []error
	for _, name := range named {
		i := slices.Index(Names(), name)
		if i < 0 {
			errs = append(errs, fmt.Errorf("nothing that the router learns is called %q; there are %s",
				name, strings.Join(Names(), ", ")))
			continue
		}
		s |= 1 << i
	}
	return s, errors.Join(errs...)
}

// Has reports whether a mechanism is switched off.
func (s Set) Has(m Set) bool { return s&m != 0 }
