package discovery_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/route"
)

var silent = slog.New(slog.DiscardHandler)

// zone answers with one step of a script for each look-up; the last step repeats.
type zone struct {
	steps []any // []string of addresses, []*net.SRV, an error, or without, which is an error for one family
	asked []string
}

// without is an answer of which a family cannot be had.
type without struct {
	network string
	has     []string
}

// malformed is what package net makes of an answer with records that have no proper name: the others, and an error.
type malformed []*net.SRV

func (z *zone) next() any {
	n := len(z.asked) - 1
	for i, network := range z.asked[:n] {
		if network == "ip4" && z.asked[i+1] == "ip6" { // the second question of one look-up
			n--
		}
	}
	return z.steps[min(n, len(z.steps)-1)]
}

func (z *zone) LookupNetIP(_ context.Context, network, _ string) ([]netip.Addr, error) {
	z.asked = append(z.asked, network)
	s := z.next()
	if w, ok := s.(without); ok {
		if s = w.has; w.network == network {
			return nil, broken
		}
	}
	if err, ok := s.(error); ok {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range s.([]string) {
		if a := netip.MustParseAddr(a); a.Is4() == (network == "ip4") {
			out = append(out, a)
		}
	}
	if len(out) == 0 && len(s.([]string)) > 0 {
		return nil, notFound
	}
	return out, nil
}

func (z *zone) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	z.asked = append(z.asked, "srv")
	switch s := z.next().(type) {
	case []*net.SRV:
		return "", s, nil
	case malformed:
		return "", s, broken
	default:
		return "", nil, s.(error)
	}
}

var (
	notFound = &net.DNSError{Err: "no such host", IsNotFound: true}
	broken   = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
)

// follow runs a DNS source for n intervals in virtual time and returns the names in each snapshot it published.
func follow(t *testing.T, c discovery.DNSConfig, z *zone, n int) (got [][]string, all []route.Declared) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, err := discovery.NewDNS(c, z, discovery.None(), silent)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.Run(ctx, func(d route.Declared) {
				got = append(got, names(d))
				all = append(all, d)
			})
		}()
		time.Sleep(time.Duration(n)*c.WithDefaults().Interval - time.Millisecond)
		cancel()
		<-done
	})
	return got, all
}

func TestDNSHosts(t *testing.T) {
	c := discovery.DNSConfig{Name: "engines.svc", Port: 8000, Kind: "vllm"}
	for _, tt := range []struct {
		name  string
		steps []any
		want  [][]string
	}{
		{
			"sorted, once while nothing changes",
			[]any{[]string{"10.0.0.2", "10.0.0.1"}, []string{"10.0.0.1", "10.0.0.2"}},
			[][]string{{"10.0.0.1:8000", "10.0.0.2:8000"}},
		},
		{
			"an engine joins and leaves",
			[]any{[]string{"10.0.0.1"}, []string{"10.0.0.1", "10.0.0.2"}, []string{"10.0.0.2"}},
			[][]string{{"10.0.0.1:8000"}, {"10.0.0.1:8000", "10.0.0.2:8000"}, {"10.0.0.2:8000"}},
		},
		{"both families count once", []any{[]string{"fd00::1", "10.0.0.1"}}, [][]string{{"10.0.0.1:8000"}}},
		{
			"the first family fails",
			[]any{[]string{"fd00::1", "10.0.0.1"}, without{"ip4", []string{"fd00::1"}}},
			[][]string{{"10.0.0.1:8000"}},
		},
		{
			"the second family fails and is not needed",
			[]any{[]string{"10.0.0.1"}, without{"ip6", []string{"10.0.0.2"}}},
			[][]string{{"10.0.0.1:8000"}, {"10.0.0.2:8000"}},
		},
		{"only AAAA, which fails", []any{[]string{"fd00::1"}, without{"ip6", []string{"fd00::1"}}}, [][]string{{
			"[fd00::1]:8000",
		}}},
		{"only AAAA", []any{[]string{"fd00::1"}}, [][]string{{"[fd00::1]:8000"}}},
		{"a failure keeps the last answer for good", []any{[]string{"10.0.0.1"}, broken}, [][]string{{
			"10.0.0.1:8000",
		}}},
		{
			"not found twice is forgiven",
			[]any{[]string{"10.0.0.1"}, notFound, notFound, []string{"10.0.0.1"}},
			[][]string{{"10.0.0.1:8000"}},
		},
		{"not found three times is believed", []any{[]string{"10.0.0.1"}, notFound}, [][]string{{"10.0.0.1:8000"}, {}}},
		{
			"an empty answer counts as not found",
			[]any{[]string{"10.0.0.1"}, []string{}},
			[][]string{{"10.0.0.1:8000"}, {}},
		},
		{
			"failures between do not help",
			[]any{[]string{"10.0.0.1"}, notFound, broken, notFound, []string{"10.0.0.1"}},
			[][]string{{"10.0.0.1:8000"}},
		},
		{
			"so does the answer of a filter",
			[]any{[]string{"10.0.0.1"}, []string{"0.0.0.0"}, []string{"::"}},
			[][]string{{"10.0.0.1:8000"}},
		},
		{
			"and one address that is no host's among others",
			[]any{[]string{"10.0.0.1"}, []string{"10.0.0.2", "224.0.0.1"}},
			[][]string{{"10.0.0.1:8000"}},
		},
		{"late", []any{broken, errors.New("x"), []string{"10.0.0.1"}}, [][]string{{"10.0.0.1:8000"}}},
		{
			"comes back",
			[]any{[]string{"10.0.0.1"}, notFound, notFound, notFound, []string{"10.0.0.1"}},
			[][]string{{"10.0.0.1:8000"}, {}, {"10.0.0.1:8000"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, all := follow(t, c, &zone{steps: tt.steps}, 8)
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if e := all[0].Endpoints[0]; all[0].Source != "dns:engines.svc:8000" || e.Kind != fleet.KindVLLM ||
				e.URL != "http://"+e.Name || e.Weight != 1 {
				t.Errorf("got %+v", all[0])
			}
		})
	}
}

func TestDNSAsksForTheFamily(t *testing.T) {
	for typ, want := range map[string][2]string{ // of a host with both families, and one with the second
		"": {"ip4", "ip4 ip6"}, "host": {"ip4", "ip4 ip6"}, "a": {"ip4", "ip4"}, "aaaa": {"ip6", "ip6"},
	} {
		for i, has := range [][]string{{"10.0.0.1", "fd00::1"}, {"fd00::1"}} {
			z := &zone{steps: []any{has}}
			follow(t, discovery.DNSConfig{Name: "e", Port: 1, Type: typ}, z, 1)
			if got := strings.Join(z.asked, " "); got != want[i] {
				t.Errorf("%q of %v: asked for %q, want %q", typ, has, got, want[i])
			}
		}
	}
}

func TestDNSService(t *testing.T) {
	z := &zone{steps: []any{[]*net.SRV{
		{Target: "B.svc.", Port: 9001, Priority: 1, Weight: 30},
		{Target: "a.svc.", Port: 9000, Priority: 1, Weight: 10},
		{Target: "spare.svc.", Port: 9000, Priority: 2, Weight: 10},
	}}}
	half := 0.5
	_, all := follow(t,
		discovery.DNSConfig{Name: "_http._tcp.svc", Type: "srv", Scheme: "https", Weight: &half, Ranks: 2}, z, 1)
	want := []fleet.Endpoint{
		{Name: "a.svc:9000/rank0", URL: "https://a.svc:9000", Weight: 0.25, Part: fleet.Part{Kind: fleet.Rank}},
		{Name: "a.svc:9000/rank1", URL: "https://a.svc:9000", Weight: 0.25, Part: fleet.Part{
			Kind: fleet.Rank, Index: 1,
		}},
		{Name: "b.svc:9001/rank0", URL: "https://b.svc:9001", Weight: 0.75, Part: fleet.Part{Kind: fleet.Rank}},
		{Name: "b.svc:9001/rank1", URL: "https://b.svc:9001", Weight: 0.75, Part: fleet.Part{
			Kind: fleet.Rank, Index: 1,
		}},
	}
	for i := range want {
		want[i].IDForm = fleet.IDAuto
	}
	if diff := gocmp.Diff(want, all[0].Endpoints); diff != "" {
		t.Error(diff)
	}
}

// TestDNSServiceInParts: a record that names no engine is left out, and changes of the others count.
func TestDNSServiceInParts(t *testing.T) {
	a, b := &net.SRV{Target: "a.svc.", Port: 9000}, &net.SRV{Target: "b.svc.", Port: 9000}
	without, none := &net.SRV{Target: "c.svc."}, &net.SRV{Target: ".", Port: 9000}
	a.Priority, b.Priority = 1, 1
	got, _ := follow(t, discovery.DNSConfig{Name: "_http._tcp.svc", Type: "srv"}, &zone{steps: []any{
		[]*net.SRV{without, a}, malformed{a, b}, []*net.SRV{none, b}, []*net.SRV{without},
	}}, 7)
	want := [][]string{{"a.svc:9000"}, {"a.svc:9000", "b.svc:9000"}, {"b.svc:9000"}, {}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDNSFaults(t *testing.T) {
	bad := -1.0
	err := discovery.DNSConfig{
		Name: "http://x", Type: "txt", Scheme: "ftp", Interval: time.Millisecond, RemoveAfter: -1, Weight: &bad,
		Kind: "x", APIKey: "a", APIKeyEnv: "b",
	}.Validate()
	var fields []string
	for _, e := range strictyaml.Flatten(err) {
		var fe *discovery.FieldError
		if errors.As(e, &fe) {
			fields = append(fields, fe.Field)
		}
	}
	want := []string{"name", "type", "port", "scheme", "interval", "remove_after", "kind", "weight", "api_key"}
	if !slices.Equal(fields, want) {
		t.Errorf("got faults at %v, want %v", fields, want)
	}
	err = discovery.DNSConfig{Name: "x", Type: "srv", Port: 1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "port: SRV records carry the port") {
		t.Errorf("got %v", err)
	}
}
