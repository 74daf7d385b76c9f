package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/prefix"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// world is engines with exact caches, conversations that go on, and the router before them.
type world struct {
	t       *testing.T
	now     time.Time
	router  *route.Router
	rng     *rand.Rand
	caches  *prefix.Index
	talks   []*talk
	minted  int
	prompts int // tokens
	found   int // of them, in caches
	correct int // of them, as predicted
}

// talk is a conversation. A named one has an id of its client's, others are known by what they say.
type talk struct {
	named  string
	blocks []uint64
	marks  []uint64
	end    uint64
}

const (
	engines    = 4
	talks      = 500
	perSecond  = 20
	blockBytes = fleet.BlockBytes
	blockToken = blockBytes / 4
)

func newRouter(t *testing.T) *route.Router {
	t.Helper()
	p, err := policy.New(policy.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return route.New(route.Config{Policy: p})
}

// declare has the router know the engines, as it does some time after its start.
func (w *world) declare() {
	var all []fleet.Endpoint
	for i := range engines {
		all = append(all, fleet.Endpoint{Name: name(i), URL: "http://" + name(i), Weight: 1})
	}
	w.router.Observe(w.now, route.Declared{Source: "static", Endpoints: all})
	for _, e := range all {
		w.router.Observe(w.now, route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: "m"}}, ReportsCached: true,
		}})
	}
}

func name(i int) string { return fmt.Sprintf("engine-%d", i) }

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, now: time.Unix(1_700_000_000, 0), rng: rand.New(rand.NewPCG(1, 2)), router: newRouter(t),
		caches: prefix.New(prefix.Config{Capacity: 16_000, Chains: true}),
	}
	w.declare()
	for i := range talks {
		c := &talk{end: w.rng.Uint64()}
		if i%2 == 0 {
			c.named = fmt.Sprintf("client-%d", i)
		}
		w.talks = append(w.talks, c)
	}
	return w
}

// run plays turns for so many seconds and returns the share of prompt tokens that caches held.
func (w *world) run(seconds int) (hits, predicted float64) {
	w.prompts, w.found, w.correct = 0, 0, 0
	for range seconds * perSecond {
		w.now = w.now.Add(time.Second / perSecond)
		i := w.rng.IntN(talks)
		if len(w.talks[i].blocks) > 200 { // it is over, another one begins
			w.talks[i] = &talk{named: w.talks[i].named, end: w.rng.Uint64()}
			if w.talks[i].named != "" {
				w.talks[i].named += "x"
			}
		}
		w.turn(w.talks[i])
	}
	return float64(w.found) / float64(w.prompts), float64(w.correct) / float64(w.prompts)
}

func (w *world) turn(c *talk) {
	for range 8 {
		c.blocks = append(c.blocks, w.rng.Uint64()|1)
	}
	bytes := len(c.blocks) * blockBytes
	c.marks = append([]uint64{c.end}, c.marks...)
	c.end = w.rng.Uint64() | 1
	w.minted++
	req := &fleet.Request{
		ID: "r", Seed: w.rng.Uint64(), Class: fleet.Turn, Model: "m", Session: c.named,
		MintedID:    fmt.Sprintf("minted-%d", w.minted),
		PromptBytes: bytes, Stream: true, Content: &fleet.Content{Blocks: c.blocks, Bytes: bytes},
	}
	if c.named == "" {
		req.Trail = &session.Trail{Whole: c.end, Strict: c.end ^ 77, Marks: c.marks, Bytes: bytes, Least: 1 << 30}
		for _, m := range c.marks {
			req.Trail.StrictMarks = append(req.Trail.StrictMarks, m^77)
		}
	}
	plan, err := w.router.Decide(w.now, req)
	if err != nil {
		w.t.Fatal(err)
	}
	at := 0
	for name(at) != plan.Endpoint.Name {
		at++
	}
	var m prefix.Matches
	w.caches.Match(c.blocks, &m)
	tokens, cached := len(c.blocks)*blockToken, m.Depth(at)*blockToken
	w.caches.Insert(at, c.blocks)
	w.prompts += tokens
	w.found += cached
	w.correct += min(cached, plan.CachedTokens)
	w.now = w.now.Add(time.Duration(10+(tokens-cached)/20) * time.Millisecond)
	w.router.Observe(w.now, route.FirstByte{Lease: plan.Lease})
	w.router.Observe(w.now, route.Finished{Lease: plan.Lease, Usage: fleet.Usage{
		PromptTokens: tokens, CachedTokens: cached, CachedKnown: true, OutputTokens: 1,
	}})
}

func (w *world) pieces(yield func(*route.Piece) bool) {
	w.router.Rewind()
	for {
		p, more := w.router.Snapshot(w.now)
		if !more || !yield(&p) {
			return
		}
	}
}

// TestRestart: a router that was restarted with the file finds as much in caches in the next minute as one that was
// not, to 2 points, and one without the file far less.
func TestRestart(t *testing.T) {
	minute := func(restart func(w *world)) (hits, predicted float64) {
		w := newWorld(t)
		w.run(400)
		restart(w)
		return w.run(60)
	}
	stays, told := minute(func(*world) {})
	warm, warmTold := minute(func(w *world) {
		file, err := Encode(w.now, w.pieces, 256e6)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the file has %d bytes", len(file))
		pieces, at, err := Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		if !at.Equal(w.now.Truncate(time.Millisecond)) {
			t.Errorf("taken at %v, read as %v", w.now, at)
		}
		w.now = w.now.Add(2 * time.Second)
		w.router = newRouter(t)
		for i := range pieces {
			w.router.Restore(w.now, &pieces[i], 2*time.Second)
		}
		w.declare()
	})
	cold, _ := minute(func(w *world) {
		w.router = newRouter(t)
		w.declare()
	})
	t.Logf("hit rate of the minute after: not restarted %.3f (predicted %.3f), with the file %.3f (%.3f), without %.3f",
		stays, told, warm, warmTold, cold)
	if d := stays - warm; d > 0.02 {
		t.Errorf("with the file the hit rate is %.3f, without a restart %.3f", warm, stays)
	}
	if d := told - warmTold; d > 0.02 {
		t.Errorf("with the file %.3f are predicted to be cached, without a restart %.3f", warmTold, told)
	}
	if stays-cold < 0.1 {
		t.Errorf("without the file the hit rate is %.3f, without a restart %.3f: the test shows nothing", cold, stays)
	}
}

// TestUndeclared: what the file says of an engine that nobody declares is dropped, and one at another address begins
// anew.
func TestUndeclared(t *testing.T) {
	w := newWorld(t)
	w.run(60)
	var pieces []route.Piece
	w.pieces(func(p *route.Piece) bool {
		pieces = append(pieces, *p)
		return true
	})
	w.router = newRouter(t)
	for i := range pieces {
		w.router.Restore(w.now, &pieces[i], 0)
	}
	speeds := func() (known int) {
		for _, s := range w.router.Status(w.now) {
			if s.PrefillPerSec > 0 {
				known++
			}
		}
		return known
	}
	if all := w.router.Status(w.now); len(all) != 0 {
		t.Fatalf("%d endpoints are declared by the file", len(all))
	}
	w.router.Observe(w.now, route.Declared{Source: "static", Endpoints: []fleet.Endpoint{
		{Name: name(0), URL: "http://" + name(0), Weight: 1}, {Name: name(1), URL: "http://elsewhere", Weight: 1},
	}})
	if n := speeds(); n != 1 {
		t.Errorf("the speeds of %d endpoints are known, of one it is the same engine", n)
	}
	w.now = w.now.Add(11 * time.Minute)
	w.router.Observe(w.now, route.StreamsAlive{})
	w.declare()
	if n := speeds(); n != 1 {
		t.Errorf("the speeds of %d endpoints are known, one was declared in time", n)
	}
}
