package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestConditionalScripts plays testdata/*.txt: what production-stack's PR 890 decides by its description, written by
// hand. They cannot be rewritten automatically.
//
//	policy NAME threshold=N               the first line: round_robin or least_loaded
//	prefillers NAME...
//	decoders NAME...
//	loads NAME=N|NAME=-...                requests that an engine reports, running and queued; - for no report
//	ask chars=N | ids=N -> [PREFILLER] DECODER
//
// The first turn of each role is drawn: P1 and D1 stand for the endpoints drawn, P2 and D2 for the next in order of
// declaration.
func TestConditionalScripts(t *testing.T) {
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
			s := &scripted{t: t, names: map[byte][]string{}, drawn: map[byte]int{}, now: time.Unix(1_000_000, 0)}
			for i, line := range strings.Split(string(text), "\n") {
				line, _, _ = strings.Cut(line, "#")
				if line = strings.TrimSpace(line); line != "" {
					s.place = fmt.Sprintf("%s:%d: %s", file, i+1, line)
					s.do(strings.Fields(line))
				}
			}
		})
	}
}

// scripted is a router that a script drives.
type scripted struct {
	t     *testing.T
	place string
	r     *route.Router
	now   time.Time
	names map[byte][]string // by P and D
	drawn map[byte]int      // index of the first turn
	asked uint64
}

func (s *scripted) do(words []string) {
	switch args := words[1:]; words[0] {
	case "policy":
		make := map[string]func() pick.Policy{"round_robin": NewRoundRobin, "least_loaded": NewLeastLoaded}[args[0]]
		s.r = route.New(route.Config{Policy: make, Disaggregation: route.Disaggregation{
			When: fleet.WhenTokens, Threshold: s.number(strings.TrimPrefix(args[1], "threshold=")),
			Tokens: RequestTokens,
		}})
	case "prefillers":
		s.names['P'] = args
	case "decoders":
		s.names['D'] = args
		var all []fleet.Endpoint
		for i, names := range [][]string{s.names['P'], s.names['D']} {
			for _, name := range names {
				all = append(all, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1, Role: []fleet.Role{
					fleet.RolePrefill, fleet.RoleDecode,
				}[i]})
			}
		}
		s.r.Observe(s.now, route.Declared{Source: "static", Endpoints: all})
		for _, e := range all {
			s.report(e.Name, "-")
		}
		s.now = s.now.Add(time.Minute) // past the ramp
	case "loads":
		for _, arg := range args {
			name, n, _ := strings.Cut(arg, "=")
			s.report(name, n)
		}
	case "ask":
		s.ask(args)
	default:
		s.t.Fatalf("%s: no such line", s.place)
	}
}

func (s *scripted) report(name, load string) {
	r := fleet.Report{Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}}}
	r.Load = &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1}
	if load != "-" {
		n := s.number(load)
		r.Load.Running, r.Load.Waiting = n/2, n-n/2
	}
	s.r.Observe(s.now, route.Probed{Endpoint: name, Report: r})
}

func (s *scripted) ask(args []string) {
	s.asked++
	req := &fleet.Request{Model: "m", MintedID: fmt.Sprint("minted-", s.asked), Seed: s.asked, Splits: true}
	name, value, _ := strings.Cut(args[0], "=")
	switch n := s.number(value); name {
	case "chars":
		req.Characters, req.PromptBytes = n, n
	case "ids":
		req.PromptTokens = n
	default:
		s.t.Fatalf("%s: no option %s", s.place, name)
	}
	p, err := s.r.Decide(s.now, req)
	if err != nil {
		s.t.Fatalf("%s: %v", s.place, err)
	}
	got := []string{p.Endpoint.Name}
	if p.Split() {
		got = []string{p.Prefill.Endpoint.Name, p.Endpoint.Name}
		s.r.Observe(s.now, route.Finished{Lease: p.Prefill.Lease, Outcome: fleet.OK})
	}
	s.r.Observe(s.now, route.Finished{Lease: p.Lease, Outcome: fleet.OK})
	want := args[2:]
	if len(want) != len(got) {
		s.t.Errorf("%s: it went to %v (%s)", s.place, got, p.Why)
		return
	}
	for i := range want {
		if name := s.meant(want[i], got[i]); name != got[i] {
			s.t.Errorf("%s: it went to %s (%s)", s.place, got[i], p.Reason)
		}
	}
}

// meant is the endpoint that a word of a script names.
func (s *scripted) meant(word, got string) string {
	names := s.names[word[0]]
	if names == nil {
		return word
	}
	if _, bound := s.drawn[word[0]]; !bound {
		for i, name := range names {
			if name == got {
				s.drawn[word[0]] = i
			}
		}
	}
	return names[(s.drawn[word[0]]+s.number(word[1:])-1)%len(names)]
}

func (s *scripted) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.place, err)
	}
	return n
}
