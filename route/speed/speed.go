// Package speed learns how fast endpoints compute from the jobs that they were given: prompts, answers, and transfers of KV cache.
//
// It owns the fits for each endpoint and what is assumed of endpoints that nothing was learnt of. It promises that a Reader changes
// nothing and always has a speed, above 0; a Reader implements backlog.Rates. It never knows what waits or where a request goes.
// Times are in ms, sizes in tokens, endpoints are named by their slot.
package speed

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/backlog"
	"github.com/warmpath/warmpath/slot"
)

// Table is the speeds of all endpoints.
type Table struct {
	endpoints slot.Table[endpoint]
	order     []int // slots in order of declaration
	mean      means
	others    others
	pace      pace             // of answers at all endpoints
	moved     backlog.Transfer // assumed of endpoints that no KV cache has come to yet
	movedAt   time.Time        // when that was learnt
	equals    equals           // scratch, see equate
}

// endpoint is what is learnt of one endpoint.
type endpoint struct {
	prefill  prefill
	order    order
	transfer transfer // of KV cache that comes to it
	pace     pace     // of its answers
}

// means are what is assumed of endpoints that nothing has been learnt of: the mean of the others. They are 0 before the first sample.
type means struct{ perToken, fixed, perAnswer float64 }

// Enter adds an endpoint. Means are taken in the order of the calls.
func (t *Table) Enter(slot int) {
	*t.endpoints.Get(slot) = endpoint{}
	t.order = append(t.order, slot)
}

// Drop removes an endpoint.
func (t *Table) Drop(slot int) {
	t.endpoints.Reset(slot)
	t.order = slices.DeleteFunc(t.order, func(s int) bool { return s == slot })
}

// Restart forgets what was learnt of an endpoint: another engine is there.
func (t *Table) Restart(slot int) { *t.endpoints.Get(slot) = endpoint{} }

// Computed learns from the first byte of a job.
func (t *Table) Computed(now time.Time, j *backlog.Job) {
	if j.Leg == fleet.LegDecode {
		t.learnTransfer(now, j)
	}
	if j.Timed {
		t.learnPrompt(now, j)
	}
}

// Ended learns from the end of a job. ok says that it was answered in full, and that what usage tells holds.
func (t *Table) Ended(now time.Time, j *backlog.Job, ok bool, u *fleet.Usage) {
	if !j.Stale {
		t.endpoints.Get(j.Slot).prefill.ended(j)
	}
	if ok && !j.Stale && j.Class == fleet.Turn && !j.First.IsZero() {
		if u.PromptTokens > 0 {
			t.learnUsage(now, j, u)
		}
		t.learnPace(now, j, u)
	}
	t.compare(j.Slot)
}

// Reader reads the speeds and changes nothing. It is a backlog.Rates.
type Reader struct{ t *Table }

var _ backlog.Rates = Reader{}

// Reader is the table for reading.
func (t *Table) Reader() Reader { return Reader{t} }

// MsPerToken is the time for a token of a prompt, as learnt or assumed.
func (r Reader) MsPerToken(slot int) float64 {
	perToken, _ := r.t.speedOf(&r.t.endpoints.Get(slot).prefill)
	return perToken
}

// MsPerAnswer is the time for a token of an answer after the first, as learnt or assumed.
func (r Reader) MsPerAnswer(slot int) float64 {
	switch p := &r.t.endpoints.Get(slot).prefill; {
	case p.perAnswer > 0:
		return float64(p.perAnswer)
	case r.t.mean.perAnswer > 0:
		return r.t.mean.perAnswer
	}
	return firstPace
}

// HoldMs is how long a request stays once its prompt is computed; 0 is unknown.
func (r Reader) HoldMs(slot int) float64 { return float64(r.t.endpoints.Get(slot).prefill.hold) }

// Known is how well an endpoint's speed is known.
func (r Reader) Known(slot int) backlog.Known {
	p := &r.t.endpoints.Get(slot).prefill
	return backlog.Known{Own: p.samples > 0, Any: p.samples > 0 || r.t.mean.perToken != 0, MsPerAnswer: max(float64(p.perAnswer), p.perStep)}
}

// InOrder reports whether an endpoint is known to compute one prompt after the other.
func (r Reader) InOrder(slot int) bool { return r.t.endpoints.Get(slot).order.known() }

// Transfer is how fast KV cache comes to an endpoint, as learnt or assumed.
func (r Reader) Transfer(now time.Time, slot int) backlog.Transfer {
	return r.t.transferOf(now, &r.t.endpoints.Get(slot).transfer)
}

// Pace is the time for a token of an answer at an endpoint where so many others are answered, and how much longer one more answer makes it.
func (r Reader) Pace(slot, others int) (token, perOther float64) {
	return r.t.paceOf(r.t.endpoints.Get(slot), others)
}

// Learnt is the time for a token of a prompt that an endpoint's ended answers tell; 0 before the first.
func (r Reader) Learnt(slot int) (perToken float64) {
	if p := &r.t.endpoints.Get(slot).prefill; p.samples > 0 {
		return p.perToken
	}
	return 0
}

// LearntTransfer is the same of KV cache that comes to it; ok is false before the first transfer.
func (r Reader) LearntTransfer(slot int) (learnt backlog.Transfer, ok bool) {
	tr := &r.t.endpoints.Get(slot).transfer
	return tr.best(), tr.samples > 0
}

// Fill fills in the columns MsPerToken, FixedMs and MsPerAnswer. It reads the load.
func (r Reader) Fill(v *pick.View) {
	quickest := 0.0
	for i := range v.Candidates {
		c := &v.Candidates[i]
		p := &r.t.endpoints.Get(c.Slot).prefill
		c.MsPerToken, c.FixedMs = r.t.speedOf(p)
		c.MsPerAnswer = float64(p.perAnswer)
		if quickest == 0 || c.MsPerToken < quickest {
			quickest = c.MsPerToken
		}
	}
	r.fade(v, quickest)
}

// FillTransfer fills in MsPerToken and FixedMs of decode legs: for them prompts are transferred, not computed.
func (r Reader) FillTransfer(v *pick.View) {
	for i := range v.Candidates {
		c := &v.Candidates[i]
		pace := r.Transfer(v.Now, c.Slot)
		c.MsPerToken, c.FixedMs = pace.MsPerToken, pace.FixedMs
	}
}

// Audit says what is wrong with what was learnt of an endpoint where no job is open; nil when nothing is.
func (r Reader) Audit(slot int) error {
	e := r.t.endpoints.Get(slot)
	p, tr := &e.prefill, &e.transfer
	if p.early != (fit.Whole{}) {
		return fmt.Errorf("%+v is left of batches that have ended", p.early)
	}
	for _, x := range []float64{
		p.perToken, float64(p.fixed), float64(p.perAnswer), float64(p.hold), p.known, p.like,
		tr.shared.perToken, float64(tr.shared.fixed), tr.alone.perToken, float64(tr.alone.fixed),
	} {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return fmt.Errorf("it has learnt %+v, %+v", *p, *tr)
		}
	}
	return nil
}
