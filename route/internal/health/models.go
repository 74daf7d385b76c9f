package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/route/internal/bound"
)

// A server may go on with one of its models and give no sign of life for another: a gateway one of whose engines hangs,
// an adapter that blocks its own requests. Or it answers chats, and no embeddings. Its endpoint is well, and silent for
// that model, or for that path: mute.

// modelLife is what is known of one model of an endpoint, or of one path for work that is not a turn.
type modelLife struct {
	model string
	heard time.Time // when a byte of an answer of it last came
	// of a path: how many answers came, and the longest time that one took
	answers int
	longest time.Duration
	mutes   int       // in a row without such a byte
	until   time.Time // when it is tried again, if mutes is not 0
	trial   time.Time // when the request was sent that tries it; zero for none
}

// trialMost is how long one request alone tries a model that was mute.
const trialMost = 30 * time.Second

// life is the row of a model, nil for one of which nothing has come.
func (e *endpoint) life(model string) *modelLife {
	for i := range e.lives {
		if e.lives[i].model == model {
			return &e.lives[i]
		}
	}
	return nil
}

// Heard records a byte of an answer of a model. A mute one is well then.
func (t *Table) Heard(slot int, model string, at time.Time) {
	e := t.endpoints.Get(slot)
	l := e.life(model)
	if l == nil {
		if len(e.lives) == bound.Few {
			oldest := 0
			for i := range e.lives {
				if e.lives[i].heard.Before(e.lives[oldest].heard) {
					oldest = i
				}
			}
			t.speaks(&e.lives[oldest])
			e.lives = slices.Delete(e.lives, oldest, oldest+1)
		}
		e.lives = append(e.lives, modelLife{model: model})
		l = &e.lives[len(e.lives)-1]
	}
	if at.After(l.heard) {
		l.heard = at
		t.speaks(l)
	}
}

// Took notes how long an answer for a path took.
func (t *Table) Took(slot int, path string, took time.Duration) {
	if l := t.endpoints.Get(slot).life(path); l != nil {
		l.answers++
		l.longest = max(l.longest, took)
	}
}

// Begun records that the endpoint began the answer of a request that was sent at a time.
func (t *Table) Begun(slot int, sent time.Time) {
	if e := t.endpoints.Get(slot); sent.After(e.begun) {
		e.begun = sent
	}
}

// Mute keeps requests of a model away from an endpoint that is well otherwise, and of which an answer waited for so
// long.
func (t *Table) Mute(now time.Time, slot int, model string, waited time.Duration) {
	e := t.endpoints.Get(slot)
	l := e.life(model)
	if l == nil || now.Before(l.until) {
		return
	}
	if l.mutes == 0 {
		t.mutes++
	}
	d := max(t.cfg.EjectFor<<min(l.mutes, 20), waited)
	if d > t.cfg.EjectMax || d <= 0 {
		d = t.cfg.EjectMax
	}
	l.mutes++
	l.until, l.trial = now.Add(d), time.Time{}
	e.news = append(e.news, fmt.Sprintf("no data for %s for %v, while others are answered or nothing is: its "+
		"requests go elsewhere for %v", model, waited.Round(time.Second), d.Round(time.Second)))
}

// AdmitModel records that a request of a model is placed: it tries one that was mute.
func (t *Table) AdmitModel(now time.Time, slot int, model string) {
	if t.mutes == 0 {
		return
	}
	if l := t.endpoints.Get(slot).life(model); l != nil && l.mutes > 0 && !now.Before(l.until) {
		l.trial = now
	}
}

// speaks ends a model's muteness.
func (t *Table) speaks(l *modelLife) {
	if l.mutes > 0 {
		t.mutes--
		l.mutes, l.until, l.trial = 0, time.Time{}, time.Time{}
	}
}

// forgetModels forgets what is known of an endpoint's models: another process answers now.
func (t *Table) forgetModels(e *endpoint) {
	for i := range e.lives {
		t.speaks(&e.lives[i])
	}
	e.lives, e.begun = e.lives[:0], time.Time{}
}

// Mutes reports whether any endpoint is mute for a model.
func (r Reader) Mutes() bool { return r.t.mutes > 0 }

// IsMute reports whether requests of a model are to be kept from an endpoint: it is mute for it, or another request
// tries it now.
func (r Reader) IsMute(now time.Time, slot int, model string) bool {
	if r.t.mutes == 0 {
		return false
	}
	l := r.t.endpoints.Get(slot).life(model)
	return l != nil && l.mutes > 0 && (now.Before(l.until) || !l.trial.IsZero() && now.Sub(l.trial) < trialMost)
}

// MuteModels are the models for which an endpoint is mute.
func (r Reader) MuteModels(now time.Time, slot int) (models []string) {
	if r.t.mutes == 0 {
		return nil
	}
	for _, l := range r.t.endpoints.Get(slot).lives {
		if l.mutes > 0 && now.Before(l.until) {
			models = append(models, l.model)
		}
	}
	return models
}

// Several reports whether an endpoint has answered for several models, or for a path: it may be mute for one.
func (r Reader) Several(slot int) bool {
	e := r.t.endpoints.Get(slot)
	return len(e.lives) > 1 || len(e.lives) == 1 && e.lives[0].answers > 0
}

// The answers by which it is known how long those for a path take, and how many times the longest of them another may.
const (
	answersKnown = 4
	answersTimes = 16
)

// Late reports whether a request for a path, sent at a time, waits for longer than any answer explains, nothing has
// come for the path for a while, and later work was begun or nothing has come from the endpoint either.
func (r Reader) Late(now time.Time, slot int, path string, sent time.Time, silent time.Duration) bool {
	e := r.t.endpoints.Get(slot)
	l := e.life(path)
	if l == nil || l.answers < answersKnown || now.Sub(l.heard) < silent ||
		now.Sub(sent) < silent+answersTimes*l.longest {
		return false
	}
	return e.begun.Sub(sent) >= silent || now.Sub(e.lastByteAt) >= silent &&
		!slices.ContainsFunc(e.lives, func(l modelLife) bool { return now.Sub(l.heard) < silent })
}

// heardMost is how long after its last byte a model still counts as in memory: the next request may wait for a load.
const heardMost = loadMost

// Overtaken reports whether a request of a model, sent at a time, has been left behind: nothing of its model has come
// for a while, and the answer of another one, sent that much later, has begun. Engines begin in the order in which
// requests come, so it does not wait for others.
func (r Reader) Overtaken(now time.Time, slot int, model string, sent time.Time, silent time.Duration) bool {
	e := r.t.endpoints.Get(slot)
	l := e.life(model)
	return l != nil && now.Sub(l.heard) >= silent && sent.Sub(l.heard) < heardMost &&
		e.begun.Sub(sent) >= silent
}
