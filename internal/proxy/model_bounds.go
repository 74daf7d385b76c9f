package proxy

import (
	"cmp"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
)

// Bounds are what a request may take once its model is known. Those that Config has too mean the same, and zero is that
// of Config.
type Bounds struct {
	BodyBytes                                 int64
	Retries                                   int // negative is none
	FirstByte, Answer, Idle, Refusing, Tunnel time.Duration
	Comments                                  time.Duration
	AtOnce                                    bool // prompts do not wait at the router
}

// ModelBounds are the bounds of requests for some models.
type ModelBounds struct {
	Models fleet.Names // as clients name them, aliases included
	Bounds
}

// over fills in what is zero.
func (b Bounds) over(all *Bounds) *Bounds {
	retries := cmp.Or(b.Retries, all.Retries)
	return &Bounds{
		BodyBytes: cmp.Or(b.BodyBytes, all.BodyBytes), Retries: max(retries, 0),
		FirstByte: cmp.Or(b.FirstByte, all.FirstByte), Answer: cmp.Or(b.Answer, all.Answer),
		Idle: cmp.Or(b.Idle, all.Idle), Refusing: cmp.Or(b.Refusing, all.Refusing),
		Tunnel: cmp.Or(b.Tunnel, all.Tunnel), Comments: cmp.Or(b.Comments, all.Comments), AtOnce: b.AtOnce,
	}
}

// boundsOfModels finds the bounds of a model: those of the first entry that has it, else those of all.
type boundsOfModels struct {
	all  *Bounds
	some []boundsOfSome
	body int64         // the largest body of any
	tick time.Duration // the shortest time that is looked at
}

type boundsOfSome struct {
	models fleet.Names
	*Bounds
}

// newBounds takes a Config with its defaults.
func newBounds(c *Config) boundsOfModels {
	all := &Bounds{
		BodyBytes: c.BodyBytes, Retries: c.Retries, FirstByte: c.FirstByte, Answer: c.Answer, Idle: c.Idle,
		Refusing: c.Refusing, Tunnel: c.Tunnel, Comments: c.Comments,
	}
	of := boundsOfModels{all: all, body: all.BodyBytes, tick: min(all.FirstByte, all.Answer, all.Idle, all.Refusing)}
	for _, m := range c.Models {
		b := m.over(all)
		of.some = append(of.some, boundsOfSome{m.Models, b})
		of.body, of.tick = max(of.body, b.BodyBytes), min(of.tick, b.FirstByte, b.Answer, b.Idle, b.Refusing)
	}
	return of
}

// of is the bounds of a model.
func (b *boundsOfModels) of(model string) *Bounds {
	for i := range b.some {
		if b.some[i].models.Has(model) {
			return b.some[i].Bounds
		}
	}
	return b.all
}

// bound sets the bounds of the request's model, which is known now, and refuses a body that is too large for it.
func (c *call) bound() error {
	if len(c.p.bounds.some) == 0 {
		return nil
	}
	model := c.Request.Model
	if model == "" {
		model = c.onlyModel()
	}
	b := c.p.bounds.of(model)
	c.bounds.Store(b)
	if int64(len(c.Text())) > b.BodyBytes || c.Upload != nil && c.R.ContentLength > b.BodyBytes {
		return body.ErrTooLarge
	}
	return nil
}

// onlyModel is the model that a request without a name is for, if there is only one.
func (c *call) onlyModel() (only string) {
	for _, m := range c.p.fleet.Models() {
		if m.Parent != "" || m.Alias != nil || !c.allowed.Has(m.ID) {
			continue
		}
		if only != "" {
			return ""
		}
		only = m.ID
	}
	return only
}
