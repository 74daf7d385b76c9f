package metrics

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

func TestPoolsAreBounded(t *testing.T) {
	m, f := New(Config{MaxPools: 3}), &fakeFleet{}
	f.declare("a")
	f.models = []fleet.ModelStatus{{ID: "p0"}, {ID: "p1"}}
	m.Watch(f)
	for i := range 50 {
		pool := fmt.Sprintf("p%d", i)
		play(m, pool, "a")
		m.split(pool, fleet.SplitAlways)
		s := served(pool, "a")
		s.WantedTTFT = time.Second
		m.Listener().Served(s)
	}
	pools := func() []string {
		seen := map[string]bool{}
		for _, f := range gather(t, m) {
			for _, x := range f.GetMetric() {
				for _, l := range x.GetLabel() {
					seen[l.GetValue()] = seen[l.GetValue()] || l.GetName() == "pool"
				}
			}
		}
		var out []string
		for v, isPool := range seen {
			if isPool {
				out = append(out, v)
			}
		}
		slices.Sort(out)
		return out
	}
	if d := cmp.Diff([]string{"other", "p0", "p1"}, pools()); d != "" {
		t.Errorf("the scrape forgets p2, which nobody serves (-want +got):\n%s", d)
	}
	play(m, "p9", "a")
	f.models = append(f.models, fleet.ModelStatus{ID: "p9"})
	if d := cmp.Diff([]string{"other", "p0", "p1", "p9"}, pools()); d != "" {
		t.Errorf("p9 takes its place (-want +got):\n%s", d)
	}
}

func TestGoneEndpointIsScrapedOnceMore(t *testing.T) {
	m, f := populated(t)
	f.declare("b")
	if got := gather(t, m)["warmpath_requests_total"]; got == nil {
		t.Fatal("its last figures were not scraped")
	}
	got := gather(t, m)
	for name, f := range got {
		for _, x := range f.GetMetric() {
			for _, l := range x.GetLabel() {
				if l.GetName() == "endpoint" && l.GetValue() == "a" {
					t.Errorf("%s still has endpoint a", name)
				}
			}
		}
	}
	f.declare("a", "b")
	play(m, "qwen", "a")
	if got := gather(t, m)["warmpath_requests_total"].GetMetric()[0].GetCounter().GetValue(); got != 1 {
		t.Errorf("an endpoint that comes back counts from %v, want 1", got)
	}
}

func TestEndpointChurnLeavesNothing(t *testing.T) {
	for _, scraped := range []bool{true, false} {
		m, f := New(Config{}), &fakeFleet{}
		m.Watch(f)
		most := 0
		for i := range 10_000 {
			name := fmt.Sprintf("10.0.%d.%d:8000", i/256, i%256)
			f.declare(name)
			play(m, "qwen", name)
			if scraped && i%1000 == 0 {
				gather(t, m)
			}
			most = max(most, len(m.endpoints), len(m.served))
		}
		gather(t, m)
		gather(t, m)
		if most > 2*minSweep {
			t.Errorf("scraped %v: %d endpoints were remembered at once", scraped, most)
		}
		if len(m.endpoints) != 1 || len(m.served) != 1 || len(m.missing) != 0 {
			t.Errorf("scraped %v: %d, %d and %d are left, want 1, 1 and 0",
				scraped, len(m.endpoints), len(m.served), len(m.missing))
		}
		for _, v := range m.v.all() {
			if n := testutil.CollectAndCount(v); n > len(retried) { // of the one endpoint that is left
				t.Errorf("scraped %v: %d series are left in one family", scraped, n)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	m, f := New(Config{MaxPools: 2}), &fakeFleet{}
	f.declare("e0", "e1")
	m.Watch(f)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				play(m, fmt.Sprintf("p%d", i%4), fmt.Sprintf("e%d", (g+i)%5))
				if i%100 == 0 {
					_, _ = m.Gather()
				}
			}
		})
	}
	wg.Wait()
	var sum float64
	for _, name := range []string{"e0", "e1"} {
		sum += testutil.ToFloat64(m.v.attempts.WithLabelValues(name, "ok"))
	}
	if sum != 480 {
		t.Errorf("declared endpoints have %v attempts, want 480", sum)
	}
}

func BenchmarkRequest(b *testing.B) {
	m := New(Config{})
	s := served("qwen", "a")
	routed, end := route.Entry{Decision: &s.Decision}, route.Entry{Ended: ended(s)}
	l := m.Listener()
	b.ReportAllocs()
	for b.Loop() {
		l.Entry(&routed)
		m.ObserveDecision("qwen", 10*time.Microsecond)
		l.Entry(&end)
		l.Served(s)
	}
}

// BenchmarkEnd is what the end of an attempt costs inside the fleet's lock.
func BenchmarkEnd(b *testing.B) {
	m := New(Config{})
	end, l := route.Entry{Ended: ended(served("qwen", "a"))}, m.Listener()
	b.ReportAllocs()
	for b.Loop() {
		l.Entry(&end)
	}
}

func BenchmarkScrape(b *testing.B) {
	m, f := New(Config{}), &fakeFleet{}
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("e", i))
		play(m, "qwen", names[i])
	}
	f.declare(names...)
	m.Watch(f)
	h := m.Handler()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}
