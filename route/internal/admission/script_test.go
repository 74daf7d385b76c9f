package admission_test

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

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/session"
)

var rewrite = flag.Bool("rewrite", false,
	"rewrite the golden scripts in testdata; commit only if you understand the diff")

// engines is what a script says of the endpoints: a token takes a millisecond.
type engines struct {
	room    []int64
	keeps   time.Duration
	returns time.Duration // those idle for longer do not come back
	epochs  [16]uint32
}

func (e *engines) Room(slot int) int64                               { return e.room[slot] }
func (e *engines) Epoch(slot int) uint32                             { return e.epochs[slot] }
func (e *engines) MsPerToken(int) float64                            { return 1 }
func (e *engines) WorthKeeping(float64, time.Duration) time.Duration { return e.keeps }
func (e *engines) Back(idle, within time.Duration) float64 {
	if idle >= e.returns {
		return 0
	}
	return 1
}

// world is a table, what it is told, and a door that places each turn where there is room, at home first.
type world struct {
	*admission.Table
	engines engines
	now     time.Time
	turns   []turn // by number
	home    map[string]int
	texts   map[string][]uint64 // what each conversation's latest prompt says, a word for each token
	takes   []bool              // of each endpoint: it takes turns
}

type turn struct {
	name   string
	tokens int64
	hold   fleet.Lease
	until  time.Time
	at     int // -1 while it is held
	over   bool
	admission.Turn
}

func newWorld(keeps time.Duration, rooms ...int64) *world {
	w := &world{
		engines: engines{keeps: keeps, returns: keeps}, now: time.Unix(1000, 0),
		home: map[string]int{}, texts: map[string][]uint64{},
	}
	w.Table = admission.New(false, &w.engines)
	for i, room := range rooms {
		w.engines.room = append(w.engines.room, room)
		w.takes = append(w.takes, true)
		w.AddEndpoint(i)
	}
	w.Age(w.now)
	return w
}

func key(name string) session.Key {
	if name == "" {
		return session.Key{}
	}
	return session.KeyOf("", "", name)
}

// beginning is the first tokens of another conversation's latest prompt, with which a prompt begins.
type beginning struct {
	of     string
	tokens int64
}

// says has a conversation's prompt begin with another's, and go on in words of its own. A token takes a block.
func (w *world) says(name string, tokens int64, b beginning) (names []uint64) {
	text := slices.Clone(w.texts[b.of][:min(b.tokens, tokens, int64(len(w.texts[b.of])))])
	for int64(len(text)) < tokens {
		text = append(text, xxh3.HashString(fmt.Sprint(name, len(text))))
	}
	w.texts[name] = text
	sum := uint64(0)
	for i, word := range text {
		if sum = 31*sum + word; blocks.Reach(len(names)+1) == i+1 {
			names = append(names, sum)
		}
	}
	return names
}

// ask has a turn come. It returns its number.
func (w *world) ask(
	name, parent string, tokens int64, p fleet.Priority, tenant string, share float64, like beginning,
) int {
	origin, ok := w.home[name]
	if !ok {
		origin = -1
	}
	prompt, shared := w.says(name, tokens, like), int64(0)
	for slot := range w.takes {
		shared = max(shared, w.Shared(slot, prompt))
	}
	t := turn{name: name, tokens: tokens, at: -1, Turn: admission.Turn{
		Key: key(name), Parent: key(parent), Pool: "m", Home: origin, Tokens: tokens, Priority: p,
		Tenant: tenant, Share: share, Names: prompt, Shared: shared,
	}}
	w.turns = append(w.turns, t)
	n := len(w.turns) - 1
	if !w.place(n) {
		x := &w.turns[n]
		x.hold, x.until = w.Hold(w.now, x.Turn)
	}
	return n
}

// place places a turn where it may go, and reports false where it must be held.
func (w *world) place(n int) bool {
	t := &w.turns[n]
	g := w.Check(w.now, &t.Turn, t.hold)
	at := -1
	for slot := range w.takes {
		if w.takes[slot] && g.MayPlace(slot, w.Shared(slot, t.Names)) && (at < 0 || slot == t.Home) {
			at = slot
		}
	}
	if at < 0 && g.MayHold() {
		return false
	}
	at = max(at, 0)
	t.at, w.home[t.name] = at, at
	w.TurnPlaced(w.now, uint32(n), &admission.PlacedTurn{
		Key: t.Key, Parent: t.Parent, Slot: at, Tenant: t.Tenant, Share: t.Share, Priority: t.Priority,
		Tokens: t.tokens, Prompt: promptOf(t.Names, t.tokens),
	})
	w.EndHold(t.hold)
	return true
}

// promptOf is the prompt of these blocks; tokens are of the whole prompt.
func promptOf(names []uint64, tokens int64) admission.Prompt {
	return admission.Prompt{Names: names, Tokens: int(tokens), Bytes: int(tokens) * fleet.BlockBytes}
}

// calls places the turns that are called, and returns their numbers.
func (w *world) calls() (called []int) {
	w.Age(w.now)
	for {
		lease, ok := w.Admit(w.now, func(time.Time, string) (at []int) {
			for slot, takes := range w.takes {
				if takes {
					at = append(at, slot)
				}
			}
			return at
		})
		if !ok {
			return called
		}
		for n := range w.turns {
			if t := &w.turns[n]; t.hold == lease {
				w.place(n)
				called = append(called, n)
			}
		}
	}
}

// end ends a turn.
func (w *world) end(n int, tokens int64, kept bool) {
	w.turns[n].over = true
	w.TurnEnded(w.now, uint32(n), tokens, kept)
}

// TestScripts plays testdata/*.txt: lines that start with "> " are what happens, the lines below what comes of it.
//
//	> engines ROOM... keeps TIME       first: tokens of each cache, and how long an idle member stays one. A token takes 1 ms
//	   [returns TIME]                  none comes back that is idle for longer
//	> turn NAME TOKENS [of PARENT] [high|low] [by TENANT] [weight N]
//	   [begins N as NAME]              N tokens of its prompt are as the other's latest
//	> end NAME [TOKENS]                its answer is complete
//	> over NAME                        its conversation has ended
//	> fail NAME                        its engine failed
//	> leave NAME                       its client leaves while it is held
//	> comes ROOM                       an endpoint is added
//	> gone N                           an endpoint has left
//	> lost N                           an engine's cache is lost
//	> router N holds TURNS TOKENS until TIME [high|low] [by TENANT]
//	> router N has left              another router, whose queue is one with this one's
//	> told                           what other routers are told
//	> wait TIME | closed N | opened N  an endpoint takes no turns, and takes them again
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

func play(t *testing.T, script string) string {
	var out strings.Builder
	var w *world
	var began time.Time
	at := func(of time.Time) time.Duration { return of.Sub(began).Round(100 * time.Millisecond) }
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	span := func(s string) time.Duration {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	latest := func(name string) int {
		for n := len(w.turns) - 1; n >= 0; n-- {
			if w.turns[n].name == name {
				return n
			}
		}
		t.Fatalf("%s has no turn", name)
		return 0
	}
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(line, "> ") {
			if strings.HasPrefix(line, "#") || line == "\n" {
				out.WriteString(line)
			}
			continue
		}
		out.WriteString(line)
		f := strings.Fields(line[2:])
		switch f[0] {
		case "engines":
			var rooms []int64
			i := 1
			for ; f[i] != "keeps"; i++ {
				rooms = append(rooms, number(f[i]))
			}
			w = newWorld(span(f[i+1]), rooms...)
			if began = w.now; len(f) > i+2 {
				w.engines.returns = span(f[i+3])
			}
		case "turn":
			parent, p, tenant, share, like := "", fleet.PriorityNormal, "", 0.0, beginning{}
			for i := 3; i < len(f); i++ {
				switch f[i] {
				case "of":
					parent = f[i+1]
				case "by":
					tenant = f[i+1]
				case "weight":
					share = float64(number(f[i+1]))
				case "begins":
					like = beginning{f[i+3], number(f[i+1])}
				case "high":
					p = fleet.PriorityHigh
				case "low":
					p = fleet.PriorityLow
				}
			}
			n := w.ask(f[1], parent, number(f[2]), p, tenant, share, like)
			if x := &w.turns[n]; x.at >= 0 {
				fmt.Fprintf(&out, "%s goes to %d\n", x.name, x.at)
			} else {
				fmt.Fprintf(&out, "%s is held, until %v at most\n", x.name, at(x.until))
			}
		case "end":
			n := latest(f[1])
			tokens := w.turns[n].tokens
			if len(f) > 2 {
				tokens = number(f[2])
			}
			w.end(n, tokens, true)
		case "fail":
			w.end(latest(f[1]), 0, false)
		case "leave":
			fmt.Fprintln(&out, "dropped:", w.EndHold(w.turns[latest(f[1])].hold))
		case "wait":
			w.now = w.now.Add(span(f[1]))
		case "comes":
			w.engines.room, w.takes = append(w.engines.room, number(f[1])), append(w.takes, true)
			w.AddEndpoint(len(w.takes) - 1)
		case "gone":
			w.takes[number(f[1])] = false
			w.RemoveEndpoint(int(number(f[1])))
		case "lost":
			w.engines.epochs[number(f[1])]++
		case "over":
			w.ConversationEnded(w.turns[latest(f[1])].Key)
		case "router":
			if f[2] == "has" {
				w.PeerLeft(uint64(number(f[1])))
				break
			}
			q := admission.Queue{
				Pool: "m", Turns: int(number(f[3])), Tokens: number(f[4]), Until: began.Add(span(f[6])),
			}
			for i := 7; i < len(f); i++ {
				switch f[i] {
				case "high":
					q.Priority = fleet.PriorityHigh
				case "low":
					q.Priority = fleet.PriorityLow
				case "by":
					q.Tenant = f[i+1]
				}
			}
			w.PeerQueue(uint64(number(f[1])), q)
		case "told":
			for _, q := range w.Changed() {
				fmt.Fprintf(&out, "%s: %d turns need %d", q.Pool, q.Turns, q.Tokens)
				if q.Turns > 0 {
					fmt.Fprintf(&out, ", the first of %q until %v", q.Tenant, at(q.Until))
				}
				fmt.Fprintln(&out)
			}
		case "closed", "opened":
			w.takes[number(f[1])] = f[0] == "opened"
		default:
			t.Fatalf("unknown: %s", line)
		}
		for _, n := range w.calls() {
			fmt.Fprintf(&out, "%v: %s is called, and goes to %d\n", at(w.now), w.turns[n].name, w.turns[n].at)
		}
	}
	return out.String()
}
