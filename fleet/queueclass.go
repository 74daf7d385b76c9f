package fleet

import "fmt"

// Priority orders requests in the router's queue. A higher priority goes first.
type Priority int8

// The priorities.
const (
	PriorityLow Priority = iota - 1
	PriorityNormal
	PriorityHigh
)

// QueueClass is what a request's place in the router's queue depends on, besides its size.
type QueueClass struct {
	Share      float64 // weight of its tenant in the queue; 0 means 1
	Priority   Priority
	MaxWaiting int // most requests of its tenant in the queue; 0 for no limit
	MaxRunning int // most requests of its tenant at engines, further ones wait; 0 for no limit
}

// String is the word in configurations.
func (p Priority) String() string {
	switch {
	case p < PriorityNormal:
		return "low"
	case p > PriorityNormal:
		return "high"
	}
	return "normal"
}

// ParsePriority parses a priority; "" is normal.
func ParsePriority(word string) (Priority, error) {
	for _, p := range [...]Priority{PriorityLow, PriorityNormal, PriorityHigh} {
		if word == p.String() {
			return p, nil
		}
	}
	if word == "" {
		return PriorityNormal, nil
	}
	return PriorityNormal, fmt.Errorf("fleet: priority %q must be low, normal or high", word)
}
