package registry

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// naive is what a list of endpoints is, without slots, indexes or notes of changes.
type naive struct {
	t       *rapid.T
	table   *Table
	listed  []*listed
	settled map[string]string // what each endpoint was at the last Settle, by its place in entered
	entered []*listed
}

// listed is an endpoint of it.
type listed struct {
	e                  Endpoint
	name, source       string
	gone, drains       bool
	current            bool
	requests           uint64
	declared, reported []string
	number             int
}

// serves are the models of an endpoint: those declared, else those reported.
func (l *listed) serves() []string {
	if l.gone {
		return nil
	}
	if len(l.declared) > 0 {
		return l.declared
	}
	return l.reported
}

func (n *naive) spec(l *listed) fleet.Endpoint {
	return fleet.Endpoint{Name: l.name, URL: "http://" + l.name, Weight: 1, Models: l.declared}
}

// models draws a list of models: often none.
func models(t *rapid.T, what string) []string {
	return rapid.SampledFrom([][]string{nil, nil, {"m"}, {"m", "n"}, {"o"}}).Draw(t, what)
}

func (n *naive) add(l *listed) {
	l.e = n.table.Allocate(n.spec(l))
	n.table.Enter(l.e, n.spec(l), l.source)
	l.number, l.current = len(n.entered), true
	n.listed, n.entered = append(n.listed, l), append(n.entered, l)
}

// named is the endpoint that has a name.
func (n *naive) named(name string) *listed {
	for _, l := range n.listed {
		if l.name == name && l.current {
			return l
		}
	}
	return nil
}

func (n *naive) step() {
	t := n.t
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "name")
	l := n.named(name)
	if l == nil {
		n.add(&listed{name: name, source: "s", declared: models(t, "declared")})
		return
	}
	switch rapid.SampledFrom([]string{
		"redeclare", "replace", "leave", "forget", "drain", "place", "report",
		"settle",
	}).Draw(t, "step") {
	case "redeclare":
		l.declared, l.source = models(t, "declared"), rapid.SampledFrom([]string{"s", "u"}).Draw(t, "source")
		l.gone = false
		n.table.Redeclare(l.e, n.spec(l), l.source)
	case "replace":
		l.gone, l.current = true, false
		n.table.Leave(time.Time{}, l.e)
		next := &listed{
			name: name, source: "s", declared: models(t, "declared"), drains: l.drains,
			requests: l.requests,
		}
		n.add(next)
		n.table.Replace(l.e, next.e)
		i, last := slices.Index(n.listed, l), len(n.listed)-1
		n.listed[i], n.listed[last] = n.listed[last], n.listed[i]
	case "leave":
		l.gone = true
		n.table.Leave(time.Time{}, l.e)
	case "forget": // one that has left, whether or not its name has another address now
		for i, l := range n.listed {
			if l.gone {
				n.table.Forget(l.e)
				n.table.Free(l.e)
				l.current, n.listed = false, slices.Delete(n.listed, i, i+1)
				return
			}
		}
	case "drain":
		l.drains = !l.drains
		n.table.Drain(l.e, l.drains)
	case "place":
		l.requests++
		n.table.Placed(l.e)
	case "report":
		r := fleet.Report{Healthy: true}
		if l.reported = models(t, "reported"); l.reported == nil {
			l.reported = []string{}
		}
		r.Models = []fleet.Model{}
		for _, m := range l.reported {
			r.Models = append(r.Models, fleet.Model{ID: m})
		}
		n.table.Report(time.Unix(1000, 0), l.e, &r)
	case "settle":
		n.table.ClearTouched()
		n.settled = n.now()
	}
}

// now is which endpoint serves what, in order.
func (n *naive) now() map[string]string {
	out := map[string]string{}
	for i, l := range n.listed {
		for _, m := range l.serves() {
			out[m] += fmt.Sprintf(" %d@%d", l.number, i)
		}
		out[fmt.Sprint("#", l.number)] = fmt.Sprint(l.serves(), l.gone)
	}
	return out
}

func (n *naive) check() {
	t, r := n.t, n.table.Reader
	if r.Len() != len(n.listed) {
		t.Fatalf("%d endpoints, want %d", r.Len(), len(n.listed))
	}
	slots := map[int]bool{}
	last := uint64(0)
	for i, l := range n.listed {
		e := r.Nth(i)
		names := slices.DeleteFunc(e.ModelNames(), func(s string) bool { return s == "" })
		want := &listed{gone: false, declared: l.declared, reported: l.reported}
		switch {
		case e != l.e || e.Name() != l.name || e.Key() != NameHash(l.name) || e.Source() != l.source:
			t.Fatalf("%d is %s of %s, want %s of %s", i, e.Name(), e.Source(), l.name, l.source)
		case e.Gone() != l.gone || e.Current() != l.current || e.Draining() != l.drains || e.Requests() != l.requests:
			t.Fatalf("%s: gone %t current %t drains %t requests %d, want %+v", l.name, e.Gone(), e.Current(),
				e.Draining(), e.Requests(), l)
		case r.At(e.Slot()) != e || slots[e.Slot()]:
			t.Fatalf("slot %d of %s is not its own", e.Slot(), l.name)
		case l.current && e.Order() <= last:
			t.Fatalf("%s has order %d after %d", l.name, e.Order(), last)
		case !slices.Equal(names, want.serves()):
			t.Fatalf("%s serves %v, want %v", l.name, names, want.serves())
		}
		if slots[e.Slot()] = true; l.current {
			last = e.Order()
		}
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "nobody"} {
		want := Endpoint{}
		if l := n.named(name); l != nil {
			want = l.e
		}
		if r.Named(name) != want || r.Keyed(NameHash(name)) != want {
			t.Fatalf("%s is %v by name and %v by key, want %v", name, r.Named(name), r.Keyed(NameHash(name)), want)
		}
	}
	taken := 0
	for e := range r.Slots() {
		if e.Exists() {
			taken++
		}
	}
	if taken != len(n.listed) {
		t.Fatalf("%d slots are taken by %d endpoints", taken, len(n.listed))
	}
	n.noted()
}

// noted: of what has changed since Settle, nothing is missing in Touched.
func (n *naive) noted() {
	touched := n.table.Touched()
	now := n.now()
	for what := range maps.Collect(func(yield func(string, bool) bool) {
		for _, side := range []map[string]string{now, n.settled} {
			for what := range side {
				if !yield(what, true) {
					return
				}
			}
		}
	}) {
		if now[what] == n.settled[what] {
			continue
		}
		if what[0] != '#' {
			if !slices.Contains(touched.Models, what) && !onlyMoved(now[what], n.settled[what]) {
				n.t.Fatalf("model %s was served by%s and is by%s, which is not noted: %v", what, n.settled[what],
					now[what], touched.Models)
			}
			continue
		}
		var number int
		_, _ = fmt.Sscanf(what, "#%d", &number)
		if e := n.entered[number].e; now[what] != "" && !slices.Contains(touched.Endpoints, e) {
			n.t.Fatalf("%s has changed from %s to %s, which is not noted", e.Name(), n.settled[what], now[what])
		}
	}
}

// onlyMoved reports whether the same endpoints serve a model at other places of the list: others were forgotten.
func onlyMoved(a, b string) bool {
	numbers := func(s string) (out []int) {
		for {
			var number, at int
			if k, _ := fmt.Sscanf(s, " %d@%d", &number, &at); k < 2 {
				return out
			}
			out = append(out, number)
			s = s[len(fmt.Sprintf(" %d@%d", number, at)):]
		}
	}
	return slices.Equal(numbers(a), numbers(b))
}

// TestAgainstAList: the table is a list of endpoints in order of declaration, whatever enters, changes, leaves and is
// forgotten; each has a slot of its own while it is listed; and what pools must look at again is noted.
func TestAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &naive{t: t, table: New()}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n.step()
			n.check()
		}
		for _, l := range n.listed {
			l.gone = true
			n.table.Leave(time.Time{}, l.e)
		}
		for _, l := range slices.Clone(n.listed) {
			n.table.Forget(l.e)
			n.table.Free(l.e)
		}
		if n.table.Len() != 0 || len(n.table.free) != len(n.table.bySlot) {
			t.Fatalf("at the end: %d endpoints, %d of %d slots are free", n.table.Len(), len(n.table.free),
				len(n.table.bySlot))
		}
	})
}

// TestServes: what an endpoint serves, by what is declared and reported of it.
func TestServes(t *testing.T) {
	long, adapter := fleet.Model{ID: "m", ContextTokens: 9}, fleet.Model{ID: "l", Parent: "m", ContextTokens: 5}
	for _, row := range []struct {
		name     string
		declared []string
		reported []fleet.Model // nil: nothing was reported
		asked    []string
		want     fleet.Model
		stated   bool
		ok       bool
		base     string
	}{
		{"nothing known", nil, nil, []string{"m"}, fleet.Model{}, false, false, ""},
		{"reported", nil, []fleet.Model{long}, []string{"m"}, long, false, true, "m"},
		{"declared only", []string{"m"}, nil, []string{"m"}, fleet.Model{ID: "m"}, true, true, "m"},
		{
			"declared, and another reported",
			[]string{"n"},
			[]fleet.Model{long},
			[]string{"n"},
			fleet.Model{ID: "n", ContextTokens: 9},
			true, true, "n",
		},
		{
			"reported, and another declared",
			[]string{"n"},
			[]fleet.Model{long},
			[]string{"m"},
			fleet.Model{},
			false,
			false, "n",
		},
		{"both", []string{"m"}, []fleet.Model{long}, []string{"m"}, long, false, true, "m"},
		{"an adapter", nil, []fleet.Model{long, adapter}, []string{"l"}, adapter, false, true, "m"},
		{
			"the first of several that it has", nil,
			[]fleet.Model{long, adapter},
			[]string{"x", "l", "m"},
			adapter,
			false, true, "m",
		},
		{"an empty list", nil, []fleet.Model{}, []string{"m"}, fleet.Model{}, false, false, ""},
	} {
		table := New()
		spec := fleet.Endpoint{Name: "e", Models: row.declared}
		e := table.Allocate(spec)
		table.Enter(e, spec, "s")
		table.Report(time.Unix(1000, 0), e, &fleet.Report{Healthy: true, Models: row.reported})
		m, stated, ok := e.Serves(row.asked)
		if m != row.want || stated != row.stated || ok != row.ok {
			t.Errorf("%s: %+v, stated %t, %t", row.name, m, stated, ok)
		}
		if base, several := e.Base(); base != row.base || several {
			t.Errorf("%s: its base is %q, several %t", row.name, base, several)
		}
		if unknown := row.declared == nil && row.reported == nil; e.TakesAny() != unknown {
			t.Errorf("%s: takes any model: %t, want %t", row.name, e.TakesAny(), unknown)
		}
	}
}

// TestReportsAddUp: what a report does not say stays as it was; what it says, and whether the endpoint is well, is as
// the latest says.
func TestReportsAddUp(t *testing.T) {
	table, now := New(), time.Unix(1000, 0)
	e := table.Allocate(fleet.Endpoint{Name: "e"})
	table.Enter(e, fleet.Endpoint{Name: "e"}, "s")
	full := fleet.Report{
		Healthy: true, Kind: fleet.KindVLLM, Version: "1", Models: []fleet.Model{{ID: "m"}}, MoreModels: 7,
		Load:        &fleet.LoadReport{Running: 3},
		CacheTokens: 100, BlockTokens: 16, Slots: 4, Ranks: 2, FirstRank: 2, BootstrapPort: 9,
		ReportsCached: true, Handover: "h",
	}
	table.Report(now, e, &full)
	table.Report(now.Add(time.Second), e, &fleet.Report{Detail: "no answer"})
	got := e.Report()
	if got.Healthy || got.Detail != "no answer" {
		t.Errorf("the latest report says nothing: %+v", got)
	}
	if e.Kind() != fleet.KindVLLM || e.CacheTokens() != 100 || e.BlockTokens() != 16 || e.Places() != 4 ||
		e.Handover() != "h" || !got.ReportsCached ||
		e.Peer() != (fleet.Peer{BootstrapPort: 9, Ranks: 2, FirstRank: 2, Version: "1"}) ||
		len(got.Models) != 1 || got.MoreModels != 7 {
		t.Errorf("a report that says nothing has changed %+v", got)
	}
	if !e.HasLoad(now.Add(9*time.Second), 10*time.Second) || e.HasLoad(now.Add(10*time.Second), 10*time.Second) ||
		e.Load().Running != 3 {
		t.Error("a load does not count for as long as it is fresh")
	}
	got.Models[0].ID, got.Load.Running = "changed", 7
	if e.Report().Models[0].ID != "m" || e.Load().Running != 3 {
		t.Error("a copy of the report is the report")
	}
	table.Report(now, e, &fleet.Report{Healthy: true, Sleep: fleet.Asleep, Rests: "at night"})
	if why, asleep := e.Asleep(); !asleep || why != "at night" || !e.Sleeps() {
		t.Errorf("it sleeps: %t, %q", asleep, why)
	}
	table.Refused(e)
	table.Report(now, e, &fleet.Report{})
	if _, asleep := e.Asleep(); asleep || !e.Report().Refused {
		t.Error("one that is down for another reason sleeps, or has not refused since it was well")
	}
	if table.Report(now, e, &fleet.Report{Healthy: true}); e.Report().Refused {
		t.Error("one that is well again refuses")
	}
}

// TestAbsences: a path that an endpoint lacks is asked for again after a while, when it has answered there, and when
// it was restarted.
func TestAbsences(t *testing.T) {
	table, now := New(), time.Unix(1000, 0)
	var es [2]Endpoint
	for i := range es {
		spec := fleet.Endpoint{Name: fmt.Sprint(i)}
		es[i] = table.Allocate(spec)
		table.Enter(es[i], spec, "s")
	}
	table.ModelAsked(now, es[0], "m", 8192)
	if at := es[0].Displaces("m", 4096); at != now || !es[0].Displaces("m", 8192).IsZero() ||
		!es[1].Displaces("m", 4096).IsZero() {
		t.Errorf("displaces what was asked for at %v", at)
	}
	table.Restarted(es[0])
	if !es[0].Displaces("m", 4096).IsZero() {
		t.Error("a new process has what the last one had")
	}
	for i := range 2 * bound.Few {
		table.ModelAsked(now, es[0], fmt.Sprint(i), 1)
	}
	if n := len(es[0].r.windows); n > bound.Few {
		t.Errorf("%d models are remembered", n)
	}
	lacks := func(at time.Time, e Endpoint, path string) bool {
		a := table.Path(path)
		return a.LackedByAny(at) && a.LackedBy(at, e)
	}
	for name, ends := range map[string]func(){
		"it was restarted":   func() { table.Restarted(es[0]) },
		"its slot was freed": func() { table.Free(es[0]); table.bySlot[es[0].Slot()], table.free = es[0], nil },
		"ten minutes later":  func() { now = now.Add(bound.Unproved) },
	} {
		table.Absent(now, es[0], "/p")
		if !lacks(now.Add(bound.Unproved-1), es[0], "/p") || lacks(now, es[1], "/p") || lacks(now, es[0], "/q") ||
			table.Path("").LackedByAny(now) {
			t.Errorf("%s: before, the wrong endpoints lack the wrong paths", name)
		}
		ends()
		if lacks(now, es[0], "/p") || table.Path("/p").LackedByAny(now) {
			t.Errorf("%s: it still lacks the path", name)
		}
	}
	// one that has answered there is asked again soon, until another process is there
	table.Present(es[0], "/p")
	answered := func(e Endpoint, path string, did, lost bool) bool {
		isDid, isLost := table.Answered(e, path)
		return isDid == did && isLost == lost
	}
	if lacks(now, es[0], "/p") || !answered(es[0], "/p", true, false) || !answered(es[1], "/p", false, false) ||
		!answered(es[0], "", false, false) {
		t.Error("it has answered under the path, and lacks it or is not known to")
	}
	table.Absent(now, es[0], "/p")
	if !answered(es[0], "/p", true, true) {
		t.Error("it is not known to have lost the path")
	}
	if !lacks(now.Add(passing-1), es[0], "/p") || lacks(now.Add(passing), es[0], "/p") {
		t.Error("one that has answered under the path is asked again too soon or too late")
	}
	// one that has answered there in a former process is believed to have it, until it lacks it or is another one
	serves := func(e Endpoint, path string) bool { return table.Path(path).ServedBy(now, e) }
	if table.Present(es[0], "/s"); !serves(es[0], "/s") || serves(es[1], "/s") {
		t.Error("the wrong endpoint serves the path")
	}
	if table.Restarted(es[0]); !serves(es[0], "/s") || !table.Path("/s").AnsweredByAny() {
		t.Error("after a restart nothing serves the path")
	}
	if table.Absent(now, es[0], "/s"); serves(es[0], "/s") || table.Path("/s").AnsweredByAny() {
		t.Error("what lacks the path serves it")
	}
	table.Present(es[1], "/s")
	if table.Free(es[1]); table.Path("/s").AnsweredByAny() {
		t.Error("what has left serves the path")
	}
	table.bySlot[es[1].Slot()], table.free = es[1], nil
	table.Restarted(es[0])
	if table.Absent(now, es[0], "/p"); !answered(es[0], "/p", false, false) ||
		!lacks(now.Add(passing), es[0], "/p") {
		t.Error("a new process is believed to have the path")
	}
	for i := range 3 * bound.Few {
		if table.Absent(now, es[0], fmt.Sprint("/", i)); i > bound.Few {
			table.Present(es[0], fmt.Sprint("/+", i))
		}
		if len(table.paths) > bound.Few {
			t.Fatalf("%d paths are remembered", len(table.paths))
		}
	}
	table.Absent(now, es[0], fmt.Sprint("/", 3*bound.Few-1))
	if !lacks(now, es[0], fmt.Sprint("/", 3*bound.Few-1)) {
		t.Error("the latest path is not among those remembered")
	}
}
