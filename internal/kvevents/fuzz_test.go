package kvevents

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// FuzzMessage: whatever frames come under whatever topic, they are taken in or counted, and a topic is believed only
// where it may be.
func FuzzMessage(f *testing.F) {
	f.Add("kv@e@m", []byte{0, 0, 0, 0, 0, 0, 0, 0}, stored(1, 1))
	f.Add("kv@10.0.0.1:8000@m", []byte{0, 0, 0, 0, 0, 0, 0, 9}, cleared(1))
	f.Add("stated", []byte{1}, []byte(nil))
	f.Fuzz(func(t *testing.T, topic string, number, payload []byte) {
		g := New(DefaultConfig(), nil, nil, func(route.Event) {}, slog.New(slog.DiscardHandler))
		d := newDirectory([]fleet.Endpoint{
			{Name: "e", URL: "http://10.0.0.1:8000"}, {Name: "s", URL: "http://10.0.0.2:8000", KVTopic: "stated"},
		}, func(string) []string { return nil }, func(string) int { return 0 },
			func(e *fleet.Endpoint, at netip.Addr) from { return g.judge(e, at, map[string]bool{}) })
		if e, err := d.owner(publication{topic, 0, netip.MustParseAddr("10.0.0.9")}); err == nil &&
			(topic != "stated" || e.Name != "s") {
			t.Errorf("%q is believed for %s", topic, e.Name)
		}
		s := newStream(g, target{endpoint: "e"})
		s.message(t.Context(), [][]byte{[]byte(topic), number, payload})
		s.flush()
		if c := s.kv.Counts(); c == (kvstream.Counts{}) {
			t.Error("nothing is counted")
		}
		_, _ = givenIDs(payload)
	})
}
