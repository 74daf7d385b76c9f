package proxy

import (
	"errors"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/paths"
	"github.com/warmpath/warmpath/route"
)

// permit refuses a request for a model that its caller may not use, by the error of a model that does not exist. Where
// an engine may compute a model that is not named to it, the request goes only to engines whose own is permitted.
func (c *call) permit() error {
	if c.allowed.All() {
		return nil
	}
	if paths.NamesInside(c.R.Method, c.R.URL.Path) {
		return fault.ErrModelsUnread
	}
	c.Request.Spelt = true // another spelling could be that of a model which the caller may not use
	names, base := c.Models()
	for _, name := range names {
		if !c.allowed.Has(name) {
			return &route.UnknownModelError{Model: name, Known: c.visible()}
		}
	}
	q := &c.Request
	unread := isUpgrade(c.R)
	if !base && !unread {
		return nil
	}
	if len(names) == 0 && q.Class != fleet.Auxiliary && !q.Native {
		return c.nameOnly()
	}
	return c.keepOut(unread)
}

// nameOnly names the only model that the caller may use.
func (c *call) nameOnly() error {
	if c.Request.Model = c.onlyModel(); c.Request.Model != "" {
		return nil
	}
	if known := c.visible(); len(known) > 0 {
		return &route.ModelRequiredError{Known: known}
	}
	return fault.ErrNoModel
}

// keepOut excludes endpoints that could use another model than the caller may: for what they compute without being told
// a name, their first; for messages that are not read, any that they have. What they only tell, those may that serve
// one of the caller's, and the holder of what is its own. Who may use an alias may use its models by it.
func (c *call) keepOut(unread bool) error {
	q := &c.Request
	if !unread && !c.Computes && len(q.Owned) > 0 {
		return nil
	}
	named, may := c.named(), false
	has := func(model string) bool { return c.allowed.Has(model) || slices.Contains(named.Alias, model) }
	for _, s := range c.p.fleet.Status() {
		switch {
		case s.Gone:
		case !c.mayAsk(s.Models, has, unread):
			q.Exclude = append(q.Exclude, s.Endpoint.Name)
		default:
			serves := named.ID == "" || slices.Contains(named.Endpoints, s.Endpoint.Name)
			may = may || serves && (q.Pin == "" || s.Endpoint.Answers(q.Pin))
		}
	}
	switch {
	case may:
		return nil
	case unread:
		return fault.ErrUnread
	case c.Computes:
		return fault.ErrUnreadName
	default:
		return fault.ErrNoModel
	}
}

// named is the model or alias that the request names; zero where it names none that is served.
func (c *call) named() fleet.ModelStatus {
	models := c.p.fleet.Models()
	if i := slices.IndexFunc(models, func(m fleet.ModelStatus) bool { return m.ID == c.Request.Model }); i >= 0 {
		return models[i]
	}
	return fleet.ModelStatus{}
}

// mayAsk reports whether an endpoint with these models may be asked, see keepOut. has says which the caller may use.
func (c *call) mayAsk(models []fleet.Model, has func(string) bool, unread bool) bool {
	switch {
	case len(models) == 0:
		return has("")
	case unread:
		return !slices.ContainsFunc(models, func(m fleet.Model) bool { return !has(m.ID) })
	case c.Computes:
		if base := slices.IndexFunc(models, func(m fleet.Model) bool { return m.Parent == "" }); base >= 0 {
			return has(models[base].ID)
		}
		return has(models[0].Parent) // it is not among those that the endpoint is said to serve
	default:
		return slices.ContainsFunc(models, func(m fleet.Model) bool { return has(m.ID) })
	}
}

// mayUse says which models the caller may see in lists; nil for all.
func (c *call) mayUse() func(model string) bool {
	if c.allowed.All() {
		return nil
	}
	return c.allowed.Has
}

// mostKnown bounds the models that an error names.
const mostKnown = 20

// visible are names of models that the caller may use, in order, of many some.
func (c *call) visible() (names []string) {
	for _, m := range c.p.fleet.Models() {
		if c.allowed.Has(m.ID) && len(names) < mostKnown {
			names = append(names, m.ID)
		}
	}
	return names
}

// hideModels takes the models that the caller may not use out of an error.
func (c *call) hideModels(err error) error {
	if c.allowed.All() {
		return err
	}
	if unknown, ok := errors.AsType[*route.UnknownModelError](err); ok {
		return &route.UnknownModelError{Model: unknown.Model, Known: c.visible()}
	}
	if required, ok := errors.AsType[*route.ModelRequiredError](err); ok {
		required.Known = c.visible() // it may be wrapped in an advice
	}
	return err
}
