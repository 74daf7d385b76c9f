package route_test

import (
	"errors"
	"flag"
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
	"github.com/warmpath/warmpath/session"
)

var rewrite = flag.Bool("rewrite", false,
	"rewrite the golden scripts in testdata; commit only if you understand the diff")

// TestScripts plays testdata/*.txt: lines that start with "> " are inputs of a router, the lines below its outputs.
//
//	> aliases chat=a,b                              before anything else
//	> declare SOURCE name[,weight=0][,model=m]...   a full snapshot of one source
//	> up name [model[/parent][:context]]... [adapter=x]   a good probe
//	> down name | refused name                      a bad one
//	> route id [model=m] [session=s] [bytes=n] [class=aside] [pin=e] [exclude=e] [tried=e] [follows=r] [max=n] [tenant=t] [user=u] [parent=s] [minted=s] [says=message/message...] [text=piece/piece...] [whole]
//	> first id | finish id OUTCOME [retry=2s] [usage=prompt/cached/output] [response=r]
//	> disagg when [threshold] [strict]              before anything else but aliases, see split_script_test.go
//	> decide id ... [leg=prefill|decode] [decoder=d] [triedp=p] [fails] [unfit] | moving id
//	> signs [name=ago]...                            what streams under way tell
//	> many n [...] | retry n [...] | unseen n [...]  n requests, retries, and retries that cost nobody anything
//	> drain name | undrain name | wait 2s | status | models | stats
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if got == string(want) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s differs; run with -rewrite and read the diff. got:\n%s", file, got)
		})
	}
}

// firstLeast picks the candidate with the fewest outstanding requests, the first of equals, because scripts need
// determinism. It keeps conversations at home.
type firstLeast struct{}

func (firstLeast) Needs() pick.Needs { return pick.Needs{Name: "first_least"} }

func (firstLeast) Hooks() pick.Hooks { return pick.Hooks{} }

func (firstLeast) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	if v.Home >= 0 {
		return pick.Choice{Index: v.Home, Reason: pick.ReasonSession}
	}
	best := 0
	for i, c := range v.Candidates {
		if c.Load.Requests < v.Candidates[best].Load.Requests {
			best = i
		}
	}
	return pick.Choice{Index: best, Reason: "least"}
}

type player struct {
	t      *testing.T
	cfg    route.Config
	r      *route.Router
	now    time.Time
	leases map[string]fleet.Lease
	out    strings.Builder
}

func play(t *testing.T, script string) string {
	p := &player{t: t, now: time.Unix(1000, 0), leases: map[string]fleet.Lease{}}
	p.cfg = route.Config{
		Policy: func() pick.Policy { return firstLeast{} }, Sessions: session.Config{Max: 100}, RetryFloor: 10,
	}
	for line := range strings.SplitSeq(script, "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			p.out.WriteString(line + "\n")
			p.do(strings.Fields(line[2:]))
		case strings.HasPrefix(line, "#") || line == "":
			p.out.WriteString(line + "\n")
		}
	}
	return strings.TrimSuffix(p.out.String(), "\n")
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(&p.out, "  "+format+"\n", args...) }

func (p *player) do(words []string) {
	verb, args := words[0], words[1:]
	if verb == "aliases" {
		for _, a := range args {
			name, models, _ := strings.Cut(a, "=")
			p.cfg.Aliases = append(p.cfg.Aliases, fleet.Alias{Name: name, Models: strings.Split(models, ",")})
		}
		return
	}
	if verb == "disagg" {
		p.disagg(args)
		return
	}
	if p.r == nil {
		p.r = route.New(p.cfg)
	}
	switch verb {
	case "declare":
		p.observe(declared(args))
	case "up", "down", "refused":
		p.observe(probed(verb, args))
	case "drain":
		p.observe(route.Drain{Endpoint: args[0]})
	case "undrain":
		p.observe(route.Drain{Endpoint: args[0], Off: true})
	case "route":
		p.route(args)
	case "many", "retry", "unseen":
		p.repeat(verb, args)
	case "decide":
		p.decide(args)
	case "moving":
		p.observe(route.Transferring{Lease: p.leases[args[0]]})
	case "first":
		p.observe(route.FirstByte{Lease: p.leases[args[0]]})
	case "finish":
		p.observe(finished(p.leases[args[0]], args[1:]))
	case "signs":
		var signs route.StreamsAlive
		for _, a := range args {
			id, ago, _ := strings.Cut(a, "=")
			d, err := time.ParseDuration(ago)
			if err != nil {
				p.t.Fatal(err)
			}
			signs.Signs = append(signs.Signs, route.Sign{Lease: p.leases[id], At: p.now.Add(-d)})
		}
		p.observe(signs)
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = p.now.Add(d)
	case "status":
		p.status()
	case "models":
		for _, m := range p.r.Models() {
			p.say("%s alias=%v parent=%q context=%d at %v", m.ID, m.Alias, m.Parent, m.ContextTokens, m.Endpoints)
		}
	case "stats":
		s := p.r.Stats()
		p.say("leases %d, sessions %d, responses %d, finished twice %d",
			s.Leases, s.Sessions, s.Responses, s.DoubleFinished)
		if s.RetriesRefused+s.EjectionsSpared+s.Panics > 0 {
			p.say("retries refused %d, ejections spared %d, panics %d", s.RetriesRefused, s.EjectionsSpared, s.Panics)
		}
	default:
		p.t.Fatalf("unknown verb %q", verb)
	}
}

func (p *player) observe(ev route.Event) {
	for _, c := range p.r.Observe(p.now, ev).Changes {
		p.say("%s: %s -> %s (%s)", c.Endpoint, c.From, c.To, c.Detail)
	}
}

func (p *player) route(args []string) {
	req := p.request(args)
	d, err := p.r.Decide(p.now, &req)
	if err != nil {
		p.say("%s: error: %v", req.ID, err)
		return
	}
	p.leases[req.ID] = d.Lease
	p.say("%s -> %s (%s of %d) model=%q pool=%q session=%s first=%t prompt=%d cached=%d",
		req.ID, d.Endpoint.Name, d.Reason, d.Candidates, d.Model, d.Pool, d.Session, d.FirstTurn,
		d.PromptTokens, d.CachedTokens)
}

// repeat plays the same request several times, each ending well at once, and reports how many were placed.
func (p *player) repeat(verb string, args []string) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		p.t.Fatal(err)
	}
	req := p.request(args)
	req.Again = verb == "retry"
	taken := 0
	for range n {
		d, err := p.r.Decide(p.now, &req)
		switch {
		case err == nil:
			taken++
			p.r.Observe(p.now, route.Finished{Lease: d.Lease})
		case !errors.Is(err, route.ErrRetryBudget):
			p.t.Fatal(err)
		}
	}
	p.say("%d of %d", taken, n)
}

func (p *player) request(args []string) fleet.Request {
	req := fleet.Request{ID: args[0], Seed: 1, MintedID: "minted-" + args[0], Splits: true, Stream: true}
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		n, _ := strconv.Atoi(v)
		switch k {
		case "model":
			req.Model = v
		case "session":
			req.Session = v
		case "bytes":
			req.PromptBytes = n
		case "max":
			req.MaxTokens = n
		case "class":
			req.Class = map[string]fleet.Class{"turn": fleet.Turn, "embed": fleet.Embed, "aside": fleet.Auxiliary}[v]
		case "caller":
			req.Caller = uint64(n)
		case "pin":
			req.Pin = v
		case "exclude":
			req.Exclude = append(req.Exclude, v)
		case "tried":
			req.Tried = append(req.Tried, v)
		case "follows":
			req.Follows = v
		case "minted":
			req.MintedID = v
		case "tenant":
			req.Tenant = v
		case "user":
			req.User = v
		case "parent":
			req.Parent = v
		case "says":
			req.Trail = said(strings.Split(v, "/"))
		case "text":
			var pieces []uint64
			for piece := range strings.SplitSeq(v, "/") {
				n, _ := strconv.ParseUint(piece, 10, 64)
				pieces = append(pieces, n)
			}
			req.Content = chained(pieces...)
			req.PromptBytes = req.Content.Bytes
		case "leg":
			req.Leg = map[string]fleet.Leg{"prefill": fleet.LegPrefill, "decode": fleet.LegDecode}[v]
		case "decoder":
			req.Decoder = v
		case "triedp":
			req.TriedPrefill = append(req.TriedPrefill, v)
		case "fails":
			req.Fails = true
		case "whole":
			req.Stream = false
		case "unfit":
			req.Splits = false
		default:
			p.t.Fatalf("unknown argument %q", a)
		}
	}
	return req
}

// said is the trail of a chat of these messages.
func said(messages []string) *session.Trail {
	t, h := &session.Trail{}, uint64(1)
	for i, m := range messages {
		for _, b := range []byte(m) {
			h = (h ^ uint64(b)) * 0x100000001b3
		}
		h ^= h >> 29
		if i == len(messages)-1 {
			t.Whole, t.Strict = h, h
			break
		}
		t.Marks = append([]uint64{h}, t.Marks...)
	}
	t.StrictMarks = t.Marks
	return t
}

func (p *player) status() {
	for _, s := range p.r.Status(p.now) {
		l := s.Load
		p.say("%s %s requests=%d prefill=%d decode=%d context=%d ramp=%.2f draining=%t gone=%t %s",
			s.Endpoint.Name, s.State, l.Requests, l.PrefillTokens, l.DecodeTokens, l.ContextTokens, s.Ramp,
			s.Draining, s.Gone, s.Detail)
		p.transfers(&s)
	}
}

func declared(args []string) route.Declared {
	d := route.Declared{Source: args[0]}
	for _, a := range args[1:] {
		parts := strings.Split(a, ",")
		e := fleet.Endpoint{Name: parts[0], URL: "http://" + parts[0], Weight: 1}
		for _, o := range parts[1:] {
			k, v, _ := strings.Cut(o, "=")
			switch k {
			case "weight":
				e.Weight, _ = strconv.ParseFloat(v, 64)
			case "model":
				e.Models = append(e.Models, v)
			case "url":
				e.URL = v
			case "role":
				e.Role = fleet.Role(v)
			}
		}
		d.Endpoints = append(d.Endpoints, e)
	}
	return d
}

func probed(verb string, args []string) route.Probed {
	ev := route.Probed{Endpoint: args[0]}
	switch verb {
	case "down":
		ev.Report.Detail = "health answered 500"
		return ev
	case "refused":
		ev.Report.Refused, ev.Report.Detail = true, "connection refused"
		return ev
	}
	ev.Report.Healthy = true
	for _, a := range args[1:] {
		if adapter, ok := strings.CutPrefix(a, "adapter="); ok {
			ev.Report.Load = &fleet.LoadReport{Running: -1, Waiting: -1, KVUsage: -1, Adapters: []string{adapter}}
			continue
		}
		id, context, _ := strings.Cut(a, ":")
		id, parent, _ := strings.Cut(id, "/")
		n, _ := strconv.Atoi(context)
		ev.Report.Models = append(ev.Report.Models, fleet.Model{ID: id, Parent: parent, ContextTokens: n})
	}
	return ev
}

func finished(l fleet.Lease, args []string) route.Finished {
	f := route.Finished{Lease: l}
	for o := fleet.OK; o <= fleet.TransferFailed; o++ {
		if o.String() == args[0] {
			f.Outcome = o
		}
	}
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "retry":
			f.RetryAfter, _ = time.ParseDuration(v)
		case "limited":
			f.Limited = true
		case "alike":
			f.Excused = true
		case "response":
			f.Response = v
		case "usage":
			_, _ = fmt.Sscanf(v, "%d/%d/%d", &f.Usage.PromptTokens, &f.Usage.CachedTokens, &f.Usage.OutputTokens)
			f.Usage.CachedKnown = true
		}
	}
	return f
}
