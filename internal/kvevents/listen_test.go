package kvevents

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/zmtp"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// book is what a log was told.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// listening is a Follower at whose port publishers dial in.
func listening(t *testing.T, endpoints ...fleet.Endpoint) (*Follower, *heard, *book) {
	t.Helper()
	return listeningTo(t, DefaultConfig().Allow, endpoints...)
}

// listeningTo is listening to those that an allow list names.
func listeningTo(t *testing.T, allow []string, endpoints ...fleet.Endpoint) (*Follower, *heard, *book) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Allow = allow
	cfg.Listen = "tcp://127.0.0.1:0"
	h, said := &heard{}, &book{}
	f := New(cfg, nil, http.DefaultClient, h.observe, slog.New(slog.NewTextHandler(said, nil)))
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	running(t, f, endpoints...)
	return f, h, said
}

// caller is a PUB socket that has dialled in, and is heard: it waits for the subscription.
func caller(t *testing.T, f *Follower) *zmtp.Publisher {
	t.Helper()
	pub := zmtp.DialPublisher(strings.TrimPrefix(f.Addresses()[0], "tcp://"))
	t.Cleanup(pub.Close)
	for !pub.Subscribed() {
		time.Sleep(time.Millisecond)
	}
	return pub
}

func topical(topic string, seq uint64, payload []byte) [][]byte {
	return [][]byte{[]byte(topic), binary.BigEndian.AppendUint64(nil, seq), payload}
}

// ranked is stored of a rank.
func ranked(at float64, hash uint64, rank int) []byte {
	b := stored(at, hash)
	b[0] = 0x93
	return msgp.AppendInt(b, rank)
}

func figures(f *Follower, endpoint string) Figures {
	for _, x := range f.Figures() {
		if x.Endpoint == endpoint {
			return x
		}
	}
	return Figures{}
}

func (h *heard) last(endpoint string) (out route.KVStreamState) {
	for _, s := range h.states {
		if s.Endpoint == endpoint {
			out = s
		}
	}
	return out
}

// TestDialIn: two engines on one port are told apart by their topics, one by its name and one by its address; a gap
// leaves one partial, the end of its connection silent, a restart exact, and the other is not touched by it.
func TestDialIn(t *testing.T) {
	f, h, _ := listening(t, fleet.Endpoint{Name: "a", URL: "http://127.0.0.1:8000"},
		fleet.Endpoint{Name: "b", URL: "http://127.0.0.1:8001"})
	one, two := caller(t, f), caller(t, f)
	for i := range uint64(3) {
		one.Send(topical("kv@a@m", i, stored(float64(i)+1, i+1))...)
		two.Send(topical("kv@127.0.0.1:8001@org/m@1", i, stored(float64(i)+1, i+1))...)
	}
	h.until(t, "both", func(h *heard) bool {
		return figures(f, "a").Counts.Stored == 3 && figures(f, "b").Counts.Stored == 3 &&
			h.last("a").State == kvstream.Exact && h.last("b").State == kvstream.Exact
	})
	one.Send(topical("kv@a@m", 7, stored(9, 7))...)
	h.until(t, "a gap", func(h *heard) bool { return h.last("a").State == kvstream.Partial && h.last("a").Lost })
	if c := figures(f, "a").Counts; c.Missing != 4 {
		t.Errorf("%d messages are missing, want 4", c.Missing)
	}
	one.Close()
	h.until(t, "the end of the connection", func(h *heard) bool { return h.last("a").State == kvstream.Silent })
	again := caller(t, f)
	again.Send(topical("kv@a@m", 0, stored(20, 1))...)
	h.until(t, "a restart", func(h *heard) bool { return h.last("a").Restart && h.last("a").State == kvstream.Exact })
	if s := h.last("b"); s.State != kvstream.Exact || s.Lost {
		t.Errorf("the other engine's is %+v", s)
	}
	f.Set([]fleet.Endpoint{{Name: "b", URL: "http://127.0.0.1:8001"}})
	h.until(t, "that one is gone", func(*heard) bool { p := f.Publishers(); return p.Tied == 1 && p.Untied == 1 })
}

// TestTopicWaitsForItsStream: the first message of a topic is for the stream that starts with it, and no message is
// dropped in between. The stream would otherwise not know that it has heard all.
func TestTopicWaitsForItsStream(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Listen = "tcp://127.0.0.1:0"
	f := New(cfg, nil, nil, func(route.Event) {}, slog.New(slog.DiscardHandler))
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer f.closeListeners()
	f.Set([]fleet.Endpoint{{Name: "a", URL: "http://127.0.0.1:8000"}})
	p := f.publisher(publication{"kv@a@m", 0, netip.MustParseAddr("127.0.0.1")})
	f.drop()
	select {
	case <-p.decided:
		t.Error("a message need not wait for its stream")
	default:
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer f.wg.Wait()
	defer cancel()
	f.start(ctx)
	<-p.decided
	if f.streamOf(p) == nil {
		t.Error("the topic has no stream")
	}
}

// TestDialInCaptured: what a real vLLM published, behind a topic as llm-d gives it: the excerpt begins after its
// beginning and has gaps.
func TestDialInCaptured(t *testing.T) {
	text, err := os.ReadFile("../../engine/kv/testdata/kv_vllm_0.32.txt")
	if err != nil {
		t.Fatal(err)
	}
	f, h, _ := listening(t, fleet.Endpoint{Name: "v", URL: "http://127.0.0.1:8000"})
	pub := caller(t, f)
	messages, last, missing := uint64(0), uint64(0), uint64(0)
	var frames [][]byte
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if frames = append(frames, b); len(frames) < 3 {
			continue
		}
		seq := binary.BigEndian.Uint64(frames[1])
		if messages++; messages > 1 {
			missing += seq - last - 1
		}
		last = seq
		pub.Send([]byte("kv@127.0.0.1@Qwen/Qwen3-0.6B"), frames[1], frames[2])
		frames = nil
	}
	h.until(t, "all messages", func(h *heard) bool {
		return figures(f, "v").Counts.Batches == messages && h.last("v").State == kvstream.Partial
	})
	if c := figures(f, "v").Counts; messages < 5 || c.Missing != missing || c.Stored == 0 || c.Restarts != 0 {
		t.Errorf("of %d messages with %d missing between: %+v", messages, missing, c)
	}
}

// TestDialInRanks: the ranks of one engine share a topic, on one connection as a forwarder has it, and each has numbers
// of its own.
func TestDialInRanks(t *testing.T) {
	rank := func(i int) fleet.Endpoint {
		p := fleet.Part{Kind: fleet.Rank, Index: i}
		return fleet.Endpoint{Name: "e/" + p.String(), URL: "http://127.0.0.1:8000", Part: p}
	}
	f, h, said := listening(t, rank(0), rank(1), fleet.Endpoint{Name: "whole", URL: "http://127.0.0.1:8002"})
	pub := caller(t, f)
	for seq := range uint64(4) {
		for r := range 3 { // no endpoint is rank 2
			pub.Send(topical("kv@127.0.0.1:8000@m", seq, ranked(float64(seq)+1, seq+1, r))...)
		}
		for r := range 2 {
			pub.Send(topical("kv@whole@m", seq, ranked(float64(seq)+1, seq+1, r))...)
		}
	}
	h.until(t, "all ranks", func(h *heard) bool {
		return figures(f, rank(0).Name).Counts.Stored == 4 && figures(f, rank(1).Name).Counts.Stored == 4 &&
			figures(f, "whole").Counts.Stored == 8
	})
	if n := figures(f, "whole").Streams; n != 2 {
		t.Errorf("the engine with two ranks behind one endpoint has %d streams", n)
	}
	for _, name := range []string{rank(0).Name, rank(1).Name, "whole"} {
		if c := figures(f, name).Counts; c.Missing+c.Restarts+c.Duplicate != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	h.until(t, "what is nobody's", func(*heard) bool {
		return f.Publishers() == Publishers{Listening: true, Tied: 4, Untied: 1, Dropped: 4}
	})
	if said.count("has no such rank") != 1 {
		t.Error("a rank that nobody has was not said once")
	}
}

// TestDialInOfNobody: a topic that names nobody is counted and said once, and taken in from when its endpoint is
// declared; an endpoint that is to dial in and has not is silent.
func TestDialInOfNobody(t *testing.T) {
	f, h, said := listening(t, fleet.Endpoint{Name: "late", URL: "http://127.0.0.1:1", KVEvents: listenEvents})
	h.until(t, "that it has not dialled in", func(h *heard) bool { return h.last("late").State == kvstream.Silent })
	pub := caller(t, f)
	for i := range uint64(5) {
		pub.Send(topical("kv@127.0.0.1:8000@m", i, stored(float64(i)+1, i+1))...)
		pub.Send(topical("kv-events", i, stored(float64(i)+1, i+1))...)
	}
	pub.Send(topical(strings.Repeat("x", mostTopic+1), 0, stored(1, 1))...)
	pub.Send([]byte("two"), []byte("frames"))
	h.until(t, "the count", func(*heard) bool {
		return f.Publishers() == Publishers{Listening: true, Untied: 2, Dropped: 12}
	})
	if said.count("belongs to no endpoint") != 2 {
		t.Errorf("topics of nobody were said %d times, want 2", said.count("belongs to no endpoint"))
	}
	f.Set([]fleet.Endpoint{
		{Name: "late", URL: "http://127.0.0.1:1", KVEvents: listenEvents}, {Name: "e", URL: "http://127.0.0.1:8000"},
	})
	h.until(t, "that it is known", func(*heard) bool { return f.Publishers().Tied == 1 })
	pub.Send(topical("kv@127.0.0.1:8000@m", 5, stored(6, 6))...)
	pub.Send(topical("kv@late@m", 0, stored(6, 6))...)
	h.until(t, "both", func(h *heard) bool {
		return h.last("e").State == kvstream.Partial && h.last("late").State == kvstream.Exact
	})
}

// TestDialInTooMuch: who says nothing, or promises too much, holds up nobody else.
func TestDialInTooMuch(t *testing.T) {
	f, h, _ := listening(t, fleet.Endpoint{Name: "e", URL: "http://127.0.0.1:8000"})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.Addresses()[0], "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	_ = dial() // says nothing
	huge := dial()
	greet := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0}, []byte("NULL")...)
	_, _ = huge.Write(append(greet, make([]byte, 64-len(greet))...))
	_, _ = huge.Write(binary.BigEndian.AppendUint64([]byte{6}, 1<<40)) // a command of a terabyte
	if _, err := io.Copy(io.Discard, huge); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Log(err) // reset
	}
	pub := caller(t, f)
	pub.Send(topical("kv@e@m", 0, stored(1, 1))...)
	h.until(t, "a message", func(*heard) bool { return figures(f, "e").Counts.Stored == 1 })
}

// TestDialInAllowed: who dials in from elsewhere is refused, counted and said once, and others are heard.
func TestDialInAllowed(t *testing.T) {
	for _, c := range []struct {
		allow []string
		heard bool
	}{
		{privateNetworks(), true},
		{[]string{"127.0.0.1"}, true},
		{[]string{"10.0.0.0/8", "::/0"}, false},
	} {
		f, h, said := listeningTo(t, c.allow, fleet.Endpoint{Name: "e", URL: "http://127.0.0.1:8000"})
		if c.heard {
			caller(t, f).Send(topical("kv@e@m", 0, stored(1, 1))...)
			h.until(t, "a message", func(*heard) bool { return figures(f, "e").Counts.Stored == 1 })
		} else {
			for range 3 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(f.Addresses()[0], "tcp://"))
				if err != nil {
					t.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, conn); n != 0 {
					t.Errorf("it was greeted with %d bytes, %v", n, err)
				}
				_ = conn.Close()
			}
		}
		want := uint64(3)
		if c.heard {
			want = 0
		}
		if got := f.Publishers().Refused; got != want || (said.count("not in kv_events.allow") > 0) == c.heard {
			t.Errorf("allow %v: %d refused, said %d times", c.allow, got, said.count("not in kv_events.allow"))
		}
	}
	for _, allow := range [][]string{nil, {"engines"}} {
		cfg := DefaultConfig()
		cfg.Listen, cfg.Allow = "tcp://*:5557", allow
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "allow") {
			t.Errorf("allow %v: %v", allow, err)
		}
	}
}

// TestTopicsAreBounded: beyond the bounds no topic is heard, of one address or of all, until those of nobody have been
// quiet for long.
func TestTopicsAreBounded(t *testing.T) {
	f := New(DefaultConfig(), nil, nil, func(route.Event) {}, slog.New(slog.DiscardHandler))
	of := func(i int) publication {
		return publication{fmt.Sprint("kv@", i, "@m"), 0, netip.AddrFrom4([4]byte{10, 0, 0, byte(i / mostStray)})}
	}
	for i := range mostTopics {
		if f.publisher(of(i)) == nil {
			t.Fatalf("topic %d was refused", i)
		}
		if other := of(i); i == mostStray-1 {
			if other.topic = "one more"; f.publisher(other) != nil {
				t.Error("one too many of an address was taken")
			}
		}
	}
	more := publication{"one more", 0, netip.MustParseAddr("10.1.0.1")}
	if f.publisher(more) != nil {
		t.Error("one too many was taken")
	}
	if f.publisher(of(7)) == nil {
		t.Error("one that is known was refused")
	}
	f.connect()
	p := f.publishers[of(9)]
	p.connections, p.last = 0, time.Now().Add(-2*idle)
	if f.publisher(more) == nil || len(f.publishers) != mostTopics {
		t.Errorf("no room was made: %d topics", len(f.publishers))
	}
}

// TestOwnAddress: a topic is believed from the address of the endpoint that it names, and from elsewhere only if it is
// stated.
func TestOwnAddress(t *testing.T) {
	f := New(DefaultConfig(), nil, nil, func(route.Event) {}, slog.New(slog.DiscardHandler))
	addr := netip.MustParseAddr
	f.endpoints = []fleet.Endpoint{
		{Name: "four", URL: "http://10.0.0.1:8000"},
		{Name: "six", URL: "http://[fd00::1]:8000"},
		{Name: "named", URL: "http://Pod.example:8000"},
		{Name: "new", URL: "http://new.example:8000"},
		{Name: "socket", URL: "unix:///run/vllm.sock"},
		{Name: "nat", URL: "http://10.0.0.3:8000", KVTopic: "kv@10.0.0.3:8000@m"},
	}
	f.listeners = make([]net.Listener, 1)
	for _, c := range []struct {
		topic, from string
		want        string // endpoint, or "foreign", "pending"
	}{
		{"kv@four@m", "10.0.0.1", "four"},
		{"kv@four@m", "10.0.0.2", "foreign"},
		{"kv@10.0.0.1:8000@m", "10.0.0.1", "four"},
		{"kv@10.0.0.1:8000@m", "10.0.0.7", "foreign"},
		{"kv@10.0.0.1@m", "127.0.0.1", "foreign"},
		{"kv@six@m", "fd00::1", "six"},
		{"kv@fd00::1@m", "fd00::2", "foreign"},
		{"kv@named@m", "10.0.0.7", "named"},
		{"kv@pod.example@m", "fd00::7", "named"},
		{"kv@pod.example@m", "10.0.0.1", "foreign"},
		{"kv@new@m", "10.0.0.1", "pending"},
		{"kv@socket@m", "127.0.0.1", "socket"},
		{"kv@socket@m", "10.0.0.1", "foreign"},
		{"kv@10.0.0.3:8000@m", "192.168.0.1", "nat"},
		{"kv@nat@m", "192.168.0.1", "foreign"},
	} {
		f.publishers = map[publication]*publisher{}
		f.hosts = hosts{"pod.example": {[]netip.Addr{addr("10.0.0.7"), addr("fd00::7")}, time.Now()}}
		p := f.publisher(publication{c.topic, 0, addr(c.from)})
		f.tie(map[target]bool{})
		f.connect()
		got := p.tied.endpoint
		switch {
		case p.foreign:
			got = "foreign"
		case p.pending:
			got = "pending"
		}
		if got != c.want || p.settled == p.pending {
			t.Errorf("%q from %s: %q, want %q; settled %v", c.topic, c.from, got, c.want, p.settled)
		}
	}
	if len(f.hosts) > 0 {
		t.Errorf("names that nobody needs are kept: %v", f.hosts)
	}
}

// TestOwner: whose a topic is.
func TestOwner(t *testing.T) {
	r0, r1 := fleet.Part{Kind: fleet.Rank, Index: 0}, fleet.Part{Kind: fleet.Rank, Index: 1}
	d := newDirectory([]fleet.Endpoint{
		{Name: "a", URL: "http://10.0.0.1:8000", Models: []string{"m"}},
		{Name: "b", URL: "http://10.0.0.1:8001"},
		{Name: "c", URL: "https://GPU.example/path", KVTopic: "mine"},
		{Name: "off", URL: "http://10.0.0.3:8000", KVEvents: off},
		{Name: "stated", URL: "http://10.0.0.4:8000", KVEvents: "tcp://10.0.0.4:5557"},
		{Name: "r/" + r0.String(), URL: "http://[fd00::1]:8000", Part: r0},
		{Name: "r/" + r1.String(), URL: "http://[fd00::1]:8000", Part: r1},
		{Name: "later/" + r0.String(), URL: "http://[fd00::2]:8000", Part: r0},
		{Name: "later/" + r1.String(), URL: "http://[fd00::2]:8000", Part: r1},
	}, func(name string) []string {
		return map[string][]string{"b": {"n", "x@y"}}[name]
	}, func(name string) int {
		if strings.HasPrefix(name, "later/") {
			return 4
		}
		return 0
	}, func(*fleet.Endpoint, netip.Addr) from { return itsOwn })
	for _, c := range []struct {
		topic string
		rank  int
		want  string // or a part of the error
	}{
		{"kv@a@m", 0, "a"},
		{"kv@a@another model", 0, "a"},
		{"kv@a@m", 3, "a"}, // whole engines have as many ranks as they like
		{"kv@10.0.0.1:8001@m", 0, "b"},
		{"kv@10.0.0.1@m", 0, "a"},
		{"kv@10.0.0.1@n", 0, "b"},
		{"kv@10.0.0.1@x@y", 0, "b"},
		{"kv@10.0.0.1@z", 0, "several endpoints"},
		{"kv@gpu.example:443@z", 0, "c"},
		{"kv@gpu.example@z", 0, "c"},
		{"mine", 0, "c"},
		{"kv@r@m", 1, "r/" + r1.String()},
		{"kv@fd00::1@m", 0, "r/" + r0.String()},
		{"kv@[fd00::1]:8000@m", 1, "r/" + r1.String()},
		{"kv@r@m", 2, "no such rank"},
		{"kv@a@m", mostRanks, "no such rank"},
		{"kv@later@m", 5, "later/" + r1.String()},
		{"kv@later@m", 1, "no such rank"},
		{"kv@off@m", 0, "say otherwise"},
		{"kv@stated@m", 0, "say otherwise"},
		{"kv@10.0.0.9@m", 0, "no endpoint has"},
		{"kv@10.0.0.1:9@m", 0, "no endpoint has"},
		{"kv-events", 0, "not of the form"},
		{"kv@a", 0, "not of the form"},
		{"kv@@m", 0, "not of the form"},
		{"", 0, "not of the form"},
	} {
		e, err := d.owner(publication{topic: c.topic, rank: c.rank})
		switch {
		case err == nil && e.Name == c.want:
		case err != nil && strings.Contains(err.Error(), c.want):
		default:
			t.Errorf("%q of rank %d: %v, %v, want %q", c.topic, c.rank, e, err, c.want)
		}
	}
}

// TestListenFaults: addresses that cannot be listened at.
func TestListenFaults(t *testing.T) {
	for _, c := range []struct {
		addr  string
		ranks int
		ok    bool
	}{
		{"", 1, true},
		{"tcp://*:5557", 8, true},
		{"tcp://0.0.0.0:5557", 1, true},
		{"tcp://[::]:5557", 1, true},
		{"tcp://127.0.0.1:0", 1, true},
		{"tcp://127.0.0.1:0", 2, false},
		{"tcp://*:65535", 2, false},
		{"*:5557", 1, false},
		{"tcp://host", 1, false},
		{"ipc:///tmp/x", 1, false},
		{"tcp://*:5557", 0, false},
		{"tcp://*:5557", mostListened + 1, false},
	} {
		cfg := DefaultConfig()
		cfg.Listen, cfg.ListenRanks = c.addr, c.ranks
		if err := cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("%q for %d ranks: %v", c.addr, c.ranks, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg := DefaultConfig()
	cfg.Listen = "tcp://" + l.Addr().String()
	if err := New(cfg, nil, nil, func(route.Event) {}, slog.New(slog.DiscardHandler)).Listen(t.Context()); err == nil {
		t.Error("a port that is taken was listened at")
	}
}

// Addresses are the ports at which engines that dial out are heard, as Listen opened them.
func (f *Follower) Addresses() (out []string) {
	for _, l := range f.listeners {
		out = append(out, "tcp://"+l.Addr().String())
	}
	return out
}
