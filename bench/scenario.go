package main

import (
	"fmt"
	"strconv"
	"strings"
)

// scenario is one kind of request.
type scenario struct {
	Size   int    `json:"size_bytes"` // of the request body
	Stream bool   `json:"stream"`     // the answer is a stream of events
	Bodies string `json:"bodies"`     // fixed, new or grown
}

// Kinds of bodies.
const (
	bodiesFixed = "fixed" // 64 bodies, over and over
	bodiesNew   = "new"   // each differs from all before in its first block
	bodiesGrown = "grown" // the first 90 % was sent before: the next turn of a conversation
)

// target is the most CPU that warmpath may spend on a scenario, as a multiple of what nginx spends in the same round.
func (s scenario) target() (float64, bool) {
	if s.Stream {
		return 2.5, s.Size == 1<<10
	}
	t, ok := map[int]float64{1 << 10: 3.4, 8 << 10: 3.0, 100 << 10: 3.4, 500 << 10: 3.2}[s.Size]
	return t, ok
}

func (s scenario) String() string {
	name := strconv.Itoa(s.Size>>10) + " kB"
	if s.Stream {
		name += " stream"
	}
	return name + " " + s.Bodies
}

// parseScenarios combines sizes ("1k,8k,1ks"; s means a streamed answer) with kinds of bodies.
func parseScenarios(sizes, bodies string) ([]scenario, error) {
	var out []scenario
	for kind := range strings.SplitSeq(bodies, ",") {
		if kind != bodiesFixed && kind != bodiesNew && kind != bodiesGrown {
			return nil, fmt.Errorf("-bodies: %q is none of fixed, new, grown", kind)
		}
		for size := range strings.SplitSeq(sizes, ",") {
			digits, stream := strings.CutSuffix(size, "s")
			digits, ok := strings.CutSuffix(digits, "k")
			n, err := strconv.Atoi(digits)
			if !ok || err != nil || n < 1 || n > 16<<10 {
				return nil, fmt.Errorf("-sizes: %q is not like 8k or 1ks (1k to 16384k)", size)
			}
			out = append(out, scenario{Size: n << 10, Stream: stream, Bodies: kind})
		}
	}
	return out, nil
}
