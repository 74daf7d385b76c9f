package cache

import (
	"cmp"
	"encoding/binary"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/session"
)

// fingerprint covers all that can be reached from a table: pointers are followed once, and numbered in the order in
// which they are met.
type fingerprint struct {
	h    hash.Hash64
	seen map[uintptr]int
}

func fingerprintOf(t *Table) uint64 {
	f := fingerprint{h: fnv.New64a(), seen: map[uintptr]int{}}
	f.add(reflect.ValueOf(t))
	return f.h.Sum64()
}

func (f *fingerprint) number(x uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], x)
	_, _ = f.h.Write(b[:])
}

func (f *fingerprint) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		f.number(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		f.number(v.Uint())
	case reflect.Float32, reflect.Float64:
		f.number(math.Float64bits(v.Float()))
	case reflect.String:
		f.number(uint64(v.Len()))
		_, _ = f.h.Write([]byte(v.String()))
	case reflect.Slice, reflect.Array:
		f.number(uint64(v.Len()))
		for i := range v.Len() {
			f.add(v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.Uint(), b.Uint()) })
		for _, k := range keys {
			f.add(k)
			f.add(v.MapIndex(k))
		}
	case reflect.Pointer:
		if v.IsNil() {
			f.number(0)
			return
		}
		n, known := f.seen[v.Pointer()]
		if !known {
			n = len(f.seen) + 1
			f.seen[v.Pointer()] = n
		}
		if f.number(uint64(n)); !known {
			f.add(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.add(v.Field(i))
		}
	case reflect.Func: // a configuration
	default:
		panic(v.Kind())
	}
}

// site is a table with three endpoints, and requests that are placed there by chance.
type site struct {
	t       *Table
	now     time.Time
	rng     *rand.Rand
	text    Lookups
	stream  *kvstream.Stream
	seq     uint64
	answers AnswerReuse
	context [3]int64
	missed  Missed
	open    []fleet.Lease
	placed  map[fleet.Lease]placed
	next    uint32
	free    []uint32
	homes   map[string]session.Entry
}

type placed struct {
	slot, tokens int
	session      string
}

var slotNames = []string{"a", "b", "c"}

func newSite() *site {
	s := &site{
		t: New(0), now: time.Unix(1_700_000_000, 0), rng: rand.New(rand.NewPCG(1, 2)), stream: kvstream.New(0),
		placed: map[fleet.Lease]placed{}, homes: map[string]session.Entry{},
	}
	for i := range slotNames {
		s.t.AddEndpoint(i)
		s.t.Describe(i, Facts{CacheTokens: 4000, BlockTokens: 16})
	}
	s.t.Events.SetStreamState(0, kvstream.Exact)
	return s
}

// prompt is a turn of one of ten conversations, of up to 60 blocks; eight bytes are a token.
func (s *site) prompt() *Prompt {
	id := s.rng.Uint64N(10)
	c := &fleet.Content{}
	name := uint64(7)
	for i := range 1 + s.rng.IntN(60) {
		if i == 5 {
			name += id + 1
		}
		name = blocks.Scramble(name)
		c.Blocks = append(c.Blocks, name)
	}
	c.Bytes = len(c.Blocks) * fleet.BlockBytes
	req := &fleet.Request{Content: c, PromptBytes: c.Bytes}
	model := size.NewModel()
	who := string(rune('0' + id))
	p := &Prompt{
		Request: req, Now: s.now, Size: model.Prompt(req, size.Last{}), TokensPerByte: model.TokensPerByte,
		Session: who, AnswerReuse: s.answers, CountsActive: true,
	}
	p.Entry, p.Known = s.homes[who], s.homes[who].Endpoint != ""
	return p
}

// view is what a decision is told, of what has arrived.
func (s *site) view(p *Prompt) *pick.View {
	rows, home := make([]pick.Candidate, 0, len(slotNames)), -1
	for i, name := range slotNames {
		rows = append(rows, pick.Candidate{Endpoint: pick.Endpoint{
			Name: name, Slot: i, Epoch: s.t.Epoch(i), BlockTokens: 16, CacheTokens: 4000,
			Load: fleet.Load{ContextTokens: s.context[i]},
		}})
		if name == p.Entry.Endpoint {
			home = i
		}
	}
	missed := s.t.Begin(&s.text)
	held, found, missed := s.t.Predict(&s.text, p, pick.EndpointsOf(rows), home, missed, nil)
	s.missed = missed
	for i := range rows {
		rows[i].Cached = held[i].Arrived()
	}
	return &pick.View{
		Now: s.now, PromptTokens: p.Size.Tokens, Home: home, MostCached: found.MostCached, Candidates: rows,
	}
}

// place opens a lease for what predict has found.
func (s *site) place(v *pick.View, p *Prompt) {
	slot := s.rng.IntN(len(slotNames))
	n := s.next
	if k := len(s.free); k > 0 {
		n, s.free = s.free[k-1], s.free[:k-1]
	} else {
		s.next++
	}
	s.context[slot] += int64(v.PromptTokens)
	s.t.Note(&s.text, s.missed)
	s.t.Open(n, v, slot, &s.text, p)
	l := fleet.Lease(s.rng.Uint32N(1000)+1)<<32 | fleet.Lease(n)
	s.open, s.placed[l] = append(s.open, l), placed{slot, v.PromptTokens, p.Session}
}

// end closes a lease.
func (s *site) end() {
	i := s.rng.IntN(len(s.open))
	l := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	at := s.placed[l]
	if s.rng.IntN(2) == 0 {
		s.t.Computed(s.now, uint32(l))
	}
	s.context[at.slot] -= int64(at.tokens)
	o := []fleet.Outcome{fleet.OK, fleet.OK, fleet.OK, fleet.ClientGone, fleet.EngineError}[s.rng.IntN(5)]
	u := fleet.Usage{
		PromptTokens: at.tokens, CachedTokens: s.rng.IntN(at.tokens + 1), CachedKnown: true, OutputTokens: 10,
	}
	s.t.Close(s.now, &Ended{Lease: l, Outcome: o, Usage: &u, Sent: true, Splits: true, AnswerReuse: &s.answers})
	w := s.t.Warmth(uint32(l))
	s.homes[at.session] = session.Entry{
		Endpoint: slotNames[at.slot], Epoch: w.Epoch, Flow: w.Flow, Bytes: w.Bytes, Prompt: at.tokens,
		Tokens: at.tokens + 10,
	}
	s.free = append(s.free, uint32(l))
}

// report has the engine at slot 0 report some blocks.
func (s *site) report() {
	e := kvstream.Event{Kind: kvstream.Stored, BlockTokens: 4, Session: string(rune('0' + s.rng.Uint64N(10)))}
	for range 1 + s.rng.IntN(4) {
		e.Hashes = append(e.Hashes, s.rng.Uint64())
		e.Tokens = append(e.Tokens, s.rng.Uint32(), s.rng.Uint32(), s.rng.Uint32(), s.rng.Uint32())
	}
	if s.rng.IntN(40) == 0 {
		e = kvstream.Event{Kind: kvstream.Cleared}
	}
	var ops kvstream.Ops
	s.stream.Apply(s.seq, &kvstream.Batch{At: float64(s.seq), Events: []kvstream.Event{e}}, &ops)
	s.seq++
	s.t.Apply(s.now, 0, len(s.open), &reported.Batch{Ops: &ops, Blocks: s.stream.Len(), Size: 4}, time.Time{})
}

// TestReaderChangesNothing: between the beginning of a decision and its last step the table stays as it is, whatever
// was placed and reported before; and when all has ended nothing is left.
func TestReaderChangesNothing(t *testing.T) {
	s := newSite()
	found := 0
	for range 150 {
		s.now = s.now.Add(time.Duration(s.rng.IntN(500)) * time.Millisecond)
		s.report()
		p := s.prompt()
		before := fingerprintOf(s.t)
		v := s.view(p)
		for i := range slotNames {
			s.t.Capacity(i)
			s.t.Events.Figures(i)
		}
		if fingerprintOf(s.t) != before {
			t.Fatal("a decision has changed the table before its last step")
		}
		if v.MostCached > 0 {
			found++
		}
		s.place(v, p)
		for len(s.open) > 3+s.rng.IntN(3) {
			s.end()
		}
	}
	before := fingerprintOf(s.t)
	s.end()
	if fingerprintOf(s.t) == before {
		t.Error("a fingerprint does not show that a request has ended")
	}
	if found < 40 {
		t.Errorf("of 150 prompts only %d were found anywhere", found)
	}
	for len(s.open) > 0 {
		s.end()
	}
	for i := range slotNames {
		if err := s.t.Audit(i); err != nil {
			t.Errorf("endpoint %d, with no lease: %v", i, err)
		}
		if s.t.Resident(i, s.context[i]) != 0 {
			t.Errorf("endpoint %d, with no lease, keeps %d tokens", i, s.t.Resident(i, s.context[i]))
		}
		if s.t.RemoveEndpoint(i); !s.t.Empty(i) {
			t.Errorf("something is believed to be at slot %d, which nobody has", i)
		}
	}
}

// TestEpochs: a cache that is lost, an engine that is replaced and an endpoint that comes have epochs that no other
// ever had.
func TestEpochs(t *testing.T) {
	s, seen := newSite(), map[uint32]bool{}
	look := func(what string, slot int) {
		t.Helper()
		if e := s.t.Epoch(slot); e == 0 || seen[e] {
			t.Errorf("%s: epoch %d", what, e)
		} else {
			seen[e] = true
		}
	}
	look("declared", 0)
	look("declared", 1)
	s.t.Lost(0)
	look("lost", 0)
	s.t.Lost(0)
	s.t.Events.Void(0)
	s.t.Events.SetStreamState(0, kvstream.Exact)
	look("restarted", 0)
	if n := s.t.Losses(0); n != 2 {
		t.Errorf("%d losses", n)
	}
	s.t.RemoveEndpoint(0)
	s.t.AddEndpoint(0)
	look("another one", 0)
}
