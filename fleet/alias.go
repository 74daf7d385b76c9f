package fleet

import (
	"fmt"
	"slices"
	"time"
)

// Alias is a name that stands for several models. With Shares or Overflow each request has one of them; without either
// the policy chooses among all endpoints that serve one.
type Alias struct {
	Name   string   // "*" stands for every unknown name
	Models []string // in order of preference, for endpoints that serve several of them
	// Shares of new conversations, as weights, one for each model; nil where the policy chooses among all that serve
	// one. A model with the share 0 keeps the conversations that it has.
	Shares []float64
	// Overflow of models that are in order: how long a new prompt may wait at the best engine of each, before the next
	// one is used; 0 for as long as it takes, as for the last. nil where they are not in order.
	Overflow []time.Duration
}

// Divides reports whether each request has one of the models, by shares or in order.
func (a Alias) Divides() bool { return a.Shares != nil || a.Overflow != nil }

// Equal reports whether two say the same.
func (a Alias) Equal(b Alias) bool {
	return a.Name == b.Name && slices.Equal(a.Models, b.Models) && slices.Equal(a.Shares, b.Shares) &&
		slices.Equal(a.Overflow, b.Overflow)
}

// Validate reports what is wrong with it.
func (a Alias) Validate() error {
	if a.Name == "" || len(a.Models) == 0 {
		return fmt.Errorf("alias %q needs a name and at least one model", a.Name)
	}
	if a.Overflow != nil {
		return a.checkOverflow()
	}
	if a.Shares == nil {
		return nil
	}
	total := 0.0
	for _, s := range a.Shares {
		if !(s >= 0) || s > 1e9 {
			return fmt.Errorf("alias %q has the share %v, must be 0 or more", a.Name, s)
		}
		total += s
	}
	if len(a.Shares) != len(a.Models) || total == 0 {
		return fmt.Errorf("alias %q needs a share for each of its models, one of them above 0", a.Name)
	}
	return nil
}

func (a Alias) checkOverflow() error {
	if a.Shares != nil {
		return fmt.Errorf("alias %q has shares and overflow: its models divide by one of them", a.Name)
	}
	if len(a.Overflow) != len(a.Models) || len(a.Models) < 2 {
		return fmt.Errorf("alias %q needs overflow for each of its models but the last, and at least two", a.Name)
	}
	for i, d := range a.Overflow {
		if slices.Contains(a.Models[:i], a.Models[i]) {
			return fmt.Errorf("alias %q has the model %q twice", a.Name, a.Models[i])
		}
		if d < 0 || i == len(a.Models)-1 && d != 0 {
			return fmt.Errorf("alias %q has overflow of %v at %q, must be 0 or more, and none at the last model",
				a.Name, d, a.Models[i])
		}
	}
	return nil
}

// ModelStatus is one model or alias a client can ask for.
type ModelStatus struct {
	ID            string
	Alias         []string        // the models it stands for; nil for a model
	Shares        []float64       // those of Alias, as weights; nil without
	Overflow      []time.Duration // those of Alias that are in order; nil without
	Parent        string          // base model of an adapter
	ContextTokens int             // the largest of its endpoints; 0 unknown
	Endpoints     []string        // names of its endpoints, in order of declaration
}
