package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// agents shows agents' sessions that need more KV cache than there is, with admission and without it, in closed loop: a
// session begins when another ends.
type agents struct {
	o      *Options
	client *http.Client
	loops  []*play.Loop // of each side
}

const (
	agentCache = 64_000 // tokens of each engine
	agentRate  = 12_000 // prompt tokens that it computes in a second
)

// agentEngine is an engine whose cache holds about six of the sessions.
func agentEngine() engine.Config {
	c := engine.DefaultConfig()
	c.CacheTokens, c.PrefillTokensPerSecond, c.StepBase = agentCache, agentRate, 5*time.Millisecond
	return c
}

// workload draws sessions that begin with about 8,000 tokens and grow to some 14,000.
func (a *agents) workload() trace.Generator {
	w := trace.DefaultGenerator()
	w.PerSecond, w.System, w.Turns, w.MaxTurns = 0, 2000, 15, 40
	w.User, w.First, w.Answer, w.Think, w.Kept = 300, 20, 60, 500*time.Millisecond, true
	return w
}

// clients is how many sessions there are at one time: half as many again as the caches hold.
func (a *agents) clients() int { return a.o.Engines * 8 }

func (a *agents) fleets() []named {
	var out []named
	for _, name := range []string{"admission", "without it"} {
		out = append(out, named{name, Fleet{
			Policy: a.o.Policy, Endpoints: endpoints("engine", "", a.o.Engines), Engine: agentEngine(),
			Admission: name == "admission",
		}})
		a.loops = append(a.loops, &play.Loop{Clients: a.clients(), Next: a.sessions()})
	}
	return out
}

// play has each client play one session after the other.
func (a *agents) play(ctx context.Context, sides []*side) {
	var wg sync.WaitGroup
	for i, s := range sides {
		a.loops[i].Target = &s.target
		wg.Go(func() { a.loops[i].Play(ctx, s.score.Add) })
	}
	wg.Wait()
}

// sessions draws sessions without end.
func (a *agents) sessions() func() play.Session {
	w := a.workload()
	w.Conversations = 100
	seed, next := a.o.Seed, play.Talks(nil)
	return func() play.Session {
		if x := next(); x != nil {
			return x
		}
		next = play.Talks(w.Draw(seed))
		seed++
		return next()
	}
}

func (a *agents) introduce(w io.Writer, sides []*side) {
	s := sides[0]
	fmt.Fprintf(w, `warmpath demo: %d simulated engines of %d tokens of KV cache behind warmpath
(%s) with admission: true, and the same again without it. %d agents'
sessions at one time need more cache than there is; one begins when another ends.

Who is held:  warmpath explain --held --admin %s
Status page:  %s/    Without admission: %s/

`, len(s.engines), agentCache, a.o.Policy, a.clients(), s.router.AdminURL, s.router.AdminURL, sides[1].router.AdminURL)
}

// pressure says how many sessions the router holds, and how much of the caches they all need; "" where it does not
// answer.
func (a *agents) pressure(sides []*side) string {
	res, err := a.client.Get(sides[0].router.AdminURL + "/admin/endpoints")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var f struct {
		Endpoints []struct {
			Set  float64 `json:"working_set"`
			Room float64 `json:"working_room"`
		} `json:"endpoints"`
		Stats struct {
			Held   int     `json:"held"`
			Tokens float64 `json:"held_tokens"`
		} `json:"stats"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&f) != nil {
		return ""
	}
	need, room := f.Stats.Tokens, 0.0
	for _, e := range f.Endpoints {
		need, room = need+e.Set, room+e.Room
	}
	share := 0.0
	if room > 0 {
		share = need / room
	}
	return fmt.Sprintf("%d held; the sessions need %.2f of the caches", f.Stats.Held, share)
}

func (a *agents) line(sides []*side) string {
	text := ""
	for i, s := range sides {
		if i > 0 {
			text += "\n      "
		}
		v := s.score.Summary()
		text += fmt.Sprintf("%-10s %4.0f tokens/s, hit %.0f %%, TTFT p50 %.0f p90 %.0f ms, %d failed",
			s.name, a.loops[i].Figures().Output, 100*v.HitRate, v.TTFT.P50, v.TTFT.P90, v.Failed)
	}
	return text + "\n      " + a.pressure(sides)
}

func (a *agents) table(sides []*side) string {
	return a.scores(sides) + "\n " + a.pressure(sides)
}

func (a *agents) scores(sides []*side) string {
	t, _, row := sideBySide(sides)
	output, slowest, ended := []any{"output tokens/s"}, []any{"slowest turn of a session, p90"}, []any{"sessions ended"}
	for _, l := range a.loops {
		f := l.Figures()
		output, slowest, ended = append(output, fmt.Sprintf("%.0f", f.Output)),
			append(slowest, fmt.Sprintf("%.1f s", f.Slowest.P90/1000)), append(ended, f.Ended)
	}
	t.Row(output...)
	row("token hit rate", "%.1f %%", func(v play.Summary) any { return 100 * v.HitRate })
	row("TTFT p50", "%.0f ms", func(v play.Summary) any { return v.TTFT.P50 })
	row("TTFT p90", "%.0f ms", func(v play.Summary) any { return v.TTFT.P90 })
	row("TTFT p99", "%.0f ms", func(v play.Summary) any { return v.TTFT.P99 })
	t.Row(slowest...)
	t.Row(ended...)
	row("turns", "%d", func(v play.Summary) any { return v.Requests })
	row("failed", "%d", func(v play.Summary) any { return v.Failed })
	return t.String()
}

// figures are those of --json.
func (a *agents) figures(sides []*side) any {
	out := map[string]any{}
	for i, name := range []string{"admission", "without"} {
		f := a.loops[i].Figures()
		out[name] = map[string]any{
			"scores": sides[i].score.Summary(), "output_tokens_per_s": f.Output, "sessions_ended": f.Ended,
			"slowest_turn_p90_ms": f.Slowest.P90,
		}
	}
	return out
}

func (a *agents) conclude(w io.Writer, sides []*side) {
	fmt.Fprintln(w, a.scores(sides))
	x, y := sides[0].score.Summary(), sides[1].score.Summary()
	if with, without := a.loops[0].Figures().Output, a.loops[1].Figures().Output; without > 0 {
		fmt.Fprintf(w,
			"Output: %.1f times as much with admission. Its price is above: the slowest turn of a session.\n",
			with/without)
	}
	complain(w, x, y)
}
