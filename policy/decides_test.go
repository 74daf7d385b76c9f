package policy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/decides_*.txt anew; read the diff before you commit")

// TestDecides plays testdata/decides_*.txt: a router with a policy of this package before engines that compute 10,000
// tokens a second one prompt after the other, with 20 ms more for each first token and 10 ms for each further one.
// Lines that start with "> " are what happens, those below what the router decided and what came of it. Times are in
// ms.
//
//	> policy NAME [fallback=NAME]    before anything else
//	> engines NAME...                all that there are; those that are new are empty
//	> ask CONVERSATION tokens=N [text=NAME/N] [answer=N] [parent=CONVERSATION]
//	      its next turn: its prompt so far and N tokens more; with text, its first turn begins with N tokens that others
//	      begin with too
//	> wait DURATION                  the engines work
func TestDecides(t *testing.T) {
	files, err := filepath.Glob("testdata/decides_*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&decides{t: t, now: time.Unix(1000, 0)}).play(string(want))
			switch {
			case got == string(want):
			case *rewrite:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s differs; run with -rewrite and read the diff. got:\n%s", file, got)
			}
		})
	}
}

// decides plays a script.
type decides struct {
	t       *testing.T
	cfg     policy.Config
	r       *route.Router
	now     time.Time
	engines []*decidesEngine
	prompts map[string][]uint64 // by conversation: hashes of its blocks
	turns   map[string]int
	queued  []*decidesJob
	out     strings.Builder
}

// blockTokens is a block of text that is hashed: 128 bytes, at 4 bytes a token.
const blockTokens = 32

// decidesEngine computes prompts in order of arrival and remembers all of them.
type decidesEngine struct {
	name  string
	free  time.Time
	cache map[uint64]bool
	jobs  []*decidesJob
}

// decidesJob is a request, and when its engine will have answered.
type decidesJob struct {
	name        string
	lease       fleet.Lease
	at          string
	blocks      []uint64
	answer      int
	asked       time.Time
	found       int
	first, last time.Time
	begun       bool
}

func (p *decides) play(script string) string {
	for line := range strings.SplitSeq(script, "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			p.out.WriteString(line + "\n")
			words := strings.Fields(line[2:])
			p.do(words[0], words[1:])
		case strings.HasPrefix(line, "#") || line == "":
			p.out.WriteString(line + "\n")
		}
	}
	return strings.TrimSuffix(p.out.String(), "\n")
}

func (p *decides) say(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *decides) do(verb string, args []string) {
	switch verb {
	case "policy":
		p.cfg.Name = args[0]
		if len(args) > 1 {
			p.cfg.Session.Fallback = strings.TrimPrefix(args[1], "fallback=")
		}
		p.cfg = p.cfg.WithDefaults()
		make, err := policy.New(p.cfg)
		if err != nil {
			p.t.Fatal(err)
		}
		p.r = route.New(route.Config{Policy: make, Queue: policy.Queue(p.cfg)})
		p.prompts, p.turns = map[string][]uint64{}, map[string]int{}
	case "engines":
		p.declare(args)
	case "ask":
		p.ask(args[0], args[1:])
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.wait(p.now.Add(d))
	default:
		p.t.Fatalf("unknown verb %q", verb)
	}
}

func (p *decides) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *decides) engine(name string) *decidesEngine {
	i := slices.IndexFunc(p.engines, func(e *decidesEngine) bool { return e.name == name })
	if i < 0 {
		p.t.Fatalf("there is no engine %s", name)
	}
	return p.engines[i]
}

func (p *decides) declare(names []string) {
	d := route.Declared{Source: "script"}
	for _, name := range names {
		d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
		if !slices.ContainsFunc(p.engines, func(e *decidesEngine) bool { return e.name == name }) {
			p.engines = append(p.engines, &decidesEngine{name: name, free: p.now, cache: map[uint64]bool{}})
		}
	}
	p.r.Observe(p.now, d)
	for _, name := range names {
		p.r.Observe(p.now, route.Probed{
			Endpoint: name,
			Report:   fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
}

// ask asks for a conversation's next turn.
func (p *decides) ask(conversation string, args []string) {
	prompt, answer, parent := p.prompts[conversation], 10, ""
	text := func(of string, tokens int) {
		h := uint64(len(prompt)) + 1
		for _, b := range []byte(of) {
			h = (h ^ uint64(b)) * 0x9e3779b97f4a7c15
		}
		for i := range uint64(tokens / blockTokens) {
			x := (h + i) * 0x9e3779b97f4a7c15
			prompt = append(prompt, x^x>>29)
		}
	}
	for _, a := range args {
		switch k, v, _ := strings.Cut(a, "="); k {
		case "text":
			name, n, _ := strings.Cut(v, "/")
			text(name, p.number(n))
		case "tokens":
			text(conversation, p.number(v))
		case "answer":
			answer = p.number(v)
		case "parent":
			parent = v
		default:
			p.t.Fatalf("unknown argument %q", a)
		}
	}
	p.prompts[conversation] = prompt
	p.turns[conversation]++
	name := fmt.Sprintf("%s/%d", conversation, p.turns[conversation])
	bytes := len(prompt) * blockTokens * 4
	req := fleet.Request{
		ID: name, Seed: 1, Model: "m", Session: conversation, Parent: parent, PromptBytes: bytes,
		MaxTokens: answer, Stream: true, MayQueue: true,
		Content: &fleet.Content{Bytes: bytes, Blocks: slices.Clone(prompt)},
	}
	d, err := p.r.Decide(p.now, &req)
	if err != nil {
		p.t.Fatal(err)
	}
	queued := ""
	if d.Queued {
		queued = ", queued"
	}
	p.say("  %s of %d tokens -> %s (%s)%s, first token in %.0f", name, d.PromptTokens, d.Endpoint.Name, d.Reason,
		queued, d.TTFTMs)
	p.costs(&d)
	j := &decidesJob{
		name: name, lease: d.Lease, at: d.Endpoint.Name, blocks: req.Content.Blocks, answer: answer,
		asked: p.now,
	}
	if d.Queued {
		p.queued = append(p.queued, j)
		return
	}
	p.send(j)
}

// costs says what each candidate costs, in the terms of warmpath explain.
func (p *decides) costs(d *route.Made) {
	for i := range d.View.Candidates {
		c := &d.View.Candidates[i]
		x := &c.Terms
		if x.Cost() == 0 { // the policy has not reckoned it
			continue
		}
		p.say("    %s: cost %.0f = wait %.0f + prefill %.0f + fixed %.0f + others %.0f + spread %.0f; "+
			"%d tokens cached, %d requests",
			c.Name, x.Cost(), x.Wait, x.Prefill, x.Fixed, x.Externality, x.Spread, c.CachedTokens, c.Load.Requests)
	}
}

// send gives a job to its engine.
func (p *decides) send(j *decidesJob) {
	e := p.engine(j.at)
	for _, b := range j.blocks {
		if !e.cache[b] {
			break
		}
		j.found++
	}
	for _, b := range j.blocks {
		e.cache[b] = true
	}
	tokens := (len(j.blocks) - j.found) * blockTokens
	if p.now.After(e.free) {
		e.free = p.now
	}
	e.free = e.free.Add(time.Duration(tokens) * 100 * time.Microsecond)
	j.first = e.free.Add(20 * time.Millisecond)
	j.last = j.first.Add(time.Duration(j.answer-1) * 10 * time.Millisecond)
	e.jobs = append(e.jobs, j)
}

// wait plays what engines do until then.
func (p *decides) wait(until time.Time) {
	for {
		e, j, at := p.next()
		if j == nil || at.After(until) {
			p.now = until
			return
		}
		p.now = at
		var entry route.Entry
		if !j.begun {
			j.begun = true
			p.say("  %s: first token from %s after %.0f; %d tokens were cached", j.name, e.name,
				float64(at.Sub(j.asked))/1e6, j.found*blockTokens)
			entry = p.r.Observe(at, route.FirstByte{Lease: j.lease})
		} else {
			e.jobs = slices.DeleteFunc(e.jobs, func(x *decidesJob) bool { return x == j })
			u := fleet.Usage{
				PromptTokens: len(j.blocks) * blockTokens, CachedTokens: j.found * blockTokens,
				CachedKnown: true, OutputTokens: j.answer,
			}
			entry = p.r.Observe(at, route.Finished{Lease: j.lease, Usage: u})
		}
		for _, lease := range entry.Dispatched {
			i := slices.IndexFunc(p.queued, func(x *decidesJob) bool { return x.lease == lease })
			called := p.queued[i]
			p.queued = slices.Delete(p.queued, i, i+1)
			p.say("  %s: sent to %s after %.0f in the queue", called.name, called.at, float64(at.Sub(called.asked))/1e6)
			p.send(called)
		}
	}
}

// next is what an engine does next.
func (p *decides) next() (in *decidesEngine, job *decidesJob, at time.Time) {
	due := func(j *decidesJob) time.Time {
		if j.begun {
			return j.last
		}
		return j.first
	}
	for _, e := range p.engines {
		for _, j := range e.jobs {
			if d := due(j); job == nil || d.Before(at) {
				in, job, at = e, j, d
			}
		}
	}
	return in, job, at
}
