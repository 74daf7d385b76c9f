package reported

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/kvstream"
)

// endpoint is what is known of one engine's cache by its events.
type endpoint struct {
	born uint32
	kvstream.Figures
	base   kvstream.State // Exact or Partial: the state while nothing speaks against it
	block  int            // tokens; 0 unknown
	tiers  bool           // it has reported blocks of a second tier, which are cached as long as any tier has them
	stored uint64         // blocks stored so far
	owed   time.Time      // since when events that must have come are missing; zero when none are
	full   int            // the most blocks cached when some were evicted: what the cache has room for; 0 unknown
	misses int            // predictions in a row that were wrong
	hits   int            // predictions in a row that were right, while the events are not trusted

	otherLength, sameLength int  // token lists in a row of another length than the engine counted, and of the same
	foreign                 bool // the token lists are of another tokenizer, and not used

	answers int // below 0 when prompts that go on from an answer do not find it in the cache as it was made
}

// Overdue is by when the events of a computed prompt must have come; engines take milliseconds.
const Overdue = time.Second

// again is how many right predictions in a row, after fit.Enough wrong ones, make events trusted again.
const again = 2 * fit.Enough

func trusted(s kvstream.State) bool { return s == kvstream.Exact || s == kvstream.Partial }

// Trusted reports whether predictions are made of an endpoint's events.
func (r Reader) Trusted(slot int) bool { return trusted(r.State(slot)) }

// State is how far an endpoint's events can be trusted.
func (r Reader) State(slot int) kvstream.State { return r.t.endpoints.Get(slot).State }

// Figures are what is known of an endpoint's events.
func (r Reader) Figures(slot int) kvstream.Figures { return r.t.endpoints.Get(slot).Figures }

// Tiers reports whether an endpoint has reported blocks of a second tier.
func (r Reader) Tiers(slot int) bool { return r.t.endpoints.Get(slot).tiers }

// Capacity is how many tokens an endpoint's cache has room for, by what was cached when it evicted; 0 unknown. Partly
// filled blocks and blocks in use that have no name yet take room too, and are not counted.
func (r Reader) Capacity(slot int) int64 {
	e := r.t.endpoints.Get(slot)
	if !trusted(e.State) {
		return 0
	}
	return int64(e.full) * int64(e.block)
}

// arrived notes that blocks were stored.
func (e *endpoint) arrived(blocks int, news []string) []string {
	e.stored += uint64(blocks)
	if e.State == kvstream.Silent {
		news = append(news, "heard again")
	}
	if e.owed = (time.Time{}); e.State == kvstream.Silent || e.State == kvstream.None {
		e.State = e.base
	}
	return news
}

// Tick notices that an endpoint's events have stopped. It reports whether they are silent from now on.
func (t *Table) Tick(now time.Time, slot int) (silent bool) {
	e := t.endpoints.Get(slot)
	if e.owed.IsZero() || now.Sub(e.owed) < Overdue || !trusted(e.State) {
		return false
	}
	e.State, e.owed = kvstream.Silent, time.Time{}
	return true
}

// expect notes that a computed prompt must have stored blocks, and that no event has reported any since it was placed.
// One that was cached but for two blocks may have stored none.
func (e *endpoint) expect(now time.Time, l *lease, f *Finished) {
	u := f.Usage
	if !trusted(e.State) || e.block <= 0 || e.stored != l.stored || u.PromptTokens <= 0 || !u.CachedKnown {
		return
	}
	if u.PromptTokens-u.CachedTokens >= 3*e.block && e.owed.IsZero() {
		e.owed = now
	}
}

// compare compares what events said with what the engine found, and stops or resumes trusting them.
func (e *endpoint) compare(l *lease, f *Finished) (news []string) {
	u := f.Usage
	if !l.known || !u.CachedKnown || u.PromptTokens <= 0 || !f.SameCache || e.block <= 0 {
		return nil
	}
	off := l.said - u.CachedTokens
	if l.guess {
		if off > e.block {
			e.answers = max(e.answers-1, -again)
		} else {
			e.answers = min(e.answers+1, again)
		}
	}
	// Only a prediction of too many tokens is wrong: more may have been stored since.
	wrong := off > 2*e.block+u.PromptTokens/16 && !l.guess
	switch {
	case wrong && trusted(e.State):
		if e.misses++; e.misses >= fit.Enough {
			e.State, e.hits = kvstream.Wrong, 0
			e.Wrong++
			news = append(news, "contradict the answers; cached tokens are taken from answers instead")
		}
	case wrong:
		e.hits = 0
	default:
		e.misses = 0
		if e.hits++; e.State == kvstream.Wrong && e.hits >= again {
			e.State = e.base
			news = append(news, "agree with the answers again")
		}
	}
	return news
}

// answersChange reports whether prompts that go on from an answer do not have it as the engine made it: it is another
// text (reasoning left out), or other tokens for the same.
func (e *endpoint) answersChange() bool { return e.answers < -fit.Enough }

// agree compares the length of a list of token ids with what the engine counted, and reports whether such lists are to
// be used. A tokenizer or a chat template that is not the engine's gives tokens whose blocks the engine never has, and
// everything would be predicted to be missing (TensorRT-LLM issues 13232 and 13798 are about that). So lists are not
// used once four prompts in a row had another number of tokens, until eight have the same.
func (e *endpoint) agree(listed, counted int, news []string) (ok bool, _ []string) {
	if listed == counted {
		e.otherLength = 0
		if e.sameLength = min(e.sameLength+1, again); e.foreign && e.sameLength == again {
			e.foreign = false
			news = append(news, "token ids agree with the engine again")
		}
		return !e.foreign, news
	}
	e.sameLength = 0
	if e.otherLength = min(e.otherLength+1, fit.Enough); !e.foreign && e.otherLength == fit.Enough {
		e.foreign = true
		news = append(news, fmt.Sprintf(
			"token ids are ignored: a prompt has %d ids, but the engine counted %d tokens", listed, counted))
	}
	return false, news
}
