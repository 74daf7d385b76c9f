package rank

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRankScripts plays testdata/*.txt: what TensorRT-LLM's rank routers decide by the published rules, written by
// hand. They cannot be rewritten automatically.
//
//	policy NAME [OPTION=VALUE...]          a new router
//	ranks REQUESTS:TOKENS... [max=N]       the ranks before the next batch, and the limit of active requests of each
//	batch expected=N                       the requests that follow come at once; N is the expected maximum
//	ask ID tokens=N [conv=C] [first] [cached=N,N...] [lead=N] [rank=N] [strict] -> RANK
//	after REQUESTS:TOKENS...               the ranks after the batch
//
// Several ranks after the arrow (1|2) are those among which the shuffle decides; waits means that no rank takes the
// request.
func TestRankScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &scripted{t: t, conversations: map[string]uint64{}}
			for i, line := range strings.Split(string(text), "\n") {
				line, _, _ = strings.Cut(line, "#")
				if line = strings.TrimSpace(line); line != "" {
					place := fmt.Sprintf("%s:%d: %s", file, i+1, line)
					s.do(place, strings.Fields(line))
				}
			}
			s.flush()
		})
	}
}

// scripted is a rank router that a script drives.
type scripted struct {
	t             *testing.T
	place         string
	router        router
	ranks         []dpRank
	batch         []request
	wants         []string // of batch
	places        []string // of batch
	expected      int
	conversations map[string]uint64
}

func (s *scripted) do(place string, words []string) {
	if words[0] != "ask" {
		s.flush()
	}
	s.place = place
	switch args := words[1:]; words[0] {
	case "policy":
		s.router = makeAdapter(s.t, args[0], s.config(args[1:])).router
	case "ranks":
		s.ranks = s.states(args)
	case "batch":
		s.expected = s.number(strings.TrimPrefix(args[0], "expected="))
	case "ask":
		s.ask(args)
	case "after":
		for i, want := range s.states(args) {
			if got := s.ranks[i]; got.Requests != want.Requests || got.Tokens != want.Tokens {
				s.t.Errorf("%s: rank %d has %d:%d", s.place, i, got.Requests, got.Tokens)
			}
		}
	default:
		s.t.Fatalf("%s: no such line", s.place)
	}
}

// flush places the batch that the lines before have made up.
func (s *scripted) flush() {
	if len(s.batch) == 0 {
		return
	}
	to, expected := s.router.Place(s.ranks, s.batch)
	s.router.keep()
	if expected != s.expected {
		s.t.Errorf("%s: the expected maximum is %d, want %d", s.places[0], expected, s.expected)
	}
	for i, at := range to {
		got := "waits"
		if at != unplaced {
			got = strconv.Itoa(at)
		}
		if !slices.Contains(strings.Split(s.wants[i], "|"), got) {
			s.t.Errorf("%s: it went to %s (%s)", s.places[i], got, s.router.reason())
		}
	}
	s.batch, s.wants, s.places = nil, nil, nil
}

func (s *scripted) config(options []string) Config {
	c := DefaultConfig()
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		f, err := strconv.ParseFloat(value, 64)
		switch name {
		case "weight":
			c.Weight = f
		case "threshold":
			c.Threshold = f
		case "multiplier":
			c.Multiplier = f
		case "max_sessions":
			c.MaxSessions = s.number(value)
		case "new_conv_placement":
			c.Placement, err = value, nil
		case "cold_start_warmup":
			c.Warmup, err = true, nil
		default:
			s.t.Fatalf("%s: no option %s", s.place, name)
		}
		if err != nil {
			s.t.Fatalf("%s: %v", s.place, err)
		}
	}
	return c
}

func (s *scripted) states(args []string) (out []dpRank) {
	most := 0
	for i, arg := range args {
		if n, ok := strings.CutPrefix(arg, "max="); ok {
			most = s.number(n)
			continue
		}
		requests, tokens, _ := strings.Cut(arg, ":")
		out = append(out, dpRank{Key: uint64(i) + 1, Requests: s.number(requests), Tokens: int64(s.number(tokens))})
	}
	for i := range out {
		out[i].Most = most
	}
	return out
}

func (s *scripted) ask(args []string) {
	r := request{ID: uint64(s.number(args[0]))}
	for i, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "tokens":
			r.Tokens = s.number(value)
		case "conv":
			if s.conversations[value] == 0 {
				s.conversations[value] = uint64(len(s.conversations)) + 1
			}
			r.Conversation = s.conversations[value]
		case "first":
			r.FirstTurn = true
		case "cached":
			for n := range strings.SplitSeq(value, ",") {
				r.Cached = append(r.Cached, s.number(n))
			}
		case "lead":
			r.Lead = []uint64{uint64(s.number(value))}
		case "rank":
			r.Target = s.number(value) + 1
		case "strict":
			r.Strict = true
		case "->":
			s.batch, s.wants, s.places = append(s.batch, r), append(s.wants, args[i+2]), append(s.places, s.place)
			return
		default:
			s.t.Fatalf("%s: no option %s", s.place, name)
		}
	}
	s.t.Fatalf("%s: it does not say where the request is to go", s.place)
}

func (s *scripted) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.place, err)
	}
	return n
}
