package proxy

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/client"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/paths"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// refuse answers with an error of the router's own, unless that is errLeft.
func (c *call) refuse(err error) {
	if errors.Is(err, errLeft) {
		return
	}
	c.comments.end()
	err = c.hideModels(err)
	f := fault.Of(err)
	c.served.Error, c.served.Message, c.served.Limit = f.Code, fault.Unsaid(err).Error(), c.limit(err)
	c.served.Refused = !c.reached || c.served.Limit != ""
	if c.served.Outcome == fleet.OK { // no attempt has failed
		c.served.Outcome = fleet.ClientError
		if f.Status >= http.StatusInternalServerError {
			c.served.Outcome = fleet.Abandoned
		}
	}
	if c.Opened.Load() {
		c.served.Status = http.StatusOK
		c.sent.Store(true)
		c.fail(fault.Body(c.shape(), f, c.message(err)))
		return
	}
	if c.served.Foreign == "" {
		c.p.origins.tell(readerOf(c.R, c.p.cfg.Origins), c.client.Header())
	}
	c.setRefusalHeader(err, &f)
	// the deadlines of these two have passed
	if c.Body == nil && c.Upload == nil && f.Status != http.StatusRequestTimeout && !c.shutdown.Load() {
		client.PassOver(c.client.Writer(), c.R, c.p.cfg.ReadBody)
	}
	if c.lingers = c.Body == nil && c.Upload == nil && !c.cut && c.R.ProtoMajor == 1 &&
		(c.R.ContentLength < 0 || c.R.ContentLength > longBody); c.lingers {
		_ = http.NewResponseController(c.client.Writer()).EnableFullDuplex()
	}
	c.answerOwn(f.Status, "application/json", fault.Body(c.shape(), f, c.message(err)))
}

// setRefusalHeader sets what clients learn from the header of a refusal.
func (c *call) setRefusalHeader(err error, f *fault.Fault) {
	h := c.client.Header()
	c.ticket.Tell(h)
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	if errors.Is(err, fault.ErrLethal) { // OpenAI's and Anthropic's libraries would send it again, twice
		h.Set("X-Should-Retry", "false")
	}
	if f.Status == http.StatusUpgradeRequired { // RFC 9110, section 15.5.22
		h.Set("Upgrade", "HTTP/1.1")
	}
	if path, ok := errors.AsType[*paths.PathError](err); ok && len(path.Methods) > 0 {
		h.Set("Allow", strings.Join(path.Methods, ", "))
	}
	unread := f.Status == http.StatusRequestEntityTooLarge || f.Status == http.StatusRequestTimeout ||
		errors.Is(err, body.ErrNoRoom) || c.Upload.Unread()
	// over HTTP/2 the stream is reset, and the others go on
	if f.Code == "too_many_connections" || unread && c.R.ProtoMajor == 1 {
		h.Set("Connection", "close") // the rest of the body is not read
	}
	c.explain(h, &c.served.Decision) // of the last attempt; none without a decision
}

// longBody is how much of an unread body net/http reads before it sends the answer.
const longBody = 256 << 10

// message is an error in words for the client.
func (c *call) message(err error) string {
	if c.p.insider(c.R) {
		return err.Error()
	}
	return fault.Redacted(err)
}

// limit is the setting, or the header of the request, that an error comes from; "" for errors that are no limit.
func (c *call) limit(err error) string {
	full, _ := errors.AsType[*route.QueueFullError](err)
	switch {
	case errors.Is(err, body.ErrTooLarge) && c.bounds.Load() != c.p.bounds.all:
		return "models.settings"
	case errors.Is(err, fault.ErrWaited) && c.shortened:
		return "X-Warmpath-Wait"
	case errors.Is(err, fault.ErrWaited):
		return c.p.cfg.Quota.Wait(c.Request.Tenant)
	case full != nil && full.Tenant:
		return c.p.cfg.Quota.Waiting(c.Request.Tenant)
	}
	return fault.Limit(err)
}

// absent handles an answer that says that the engine does not have the path, the model, whose list is asked for again,
// or the response that the request names, where another endpoint has it or the router does not know which: it may have
// restarted, or another router may have passed it on. The next decision goes to an endpoint that may have it, since the
// engine has done nothing; without one the client is told why. Both are nil for another answer, and where nothing
// better is known than what the engine says.
func (a *attempt) absent(res *http.Response) (next *route.Plan, why error) {
	c := a.c
	if a.d.Leg != fleet.LegUnsplit {
		return nil, nil
	}
	switch lack := a.Lacks(res); {
	case lack.Model:
		a.lacks = true
		if a.Misnamed() {
			c.served.Misnamed = live.Misnamed{Endpoint: a.d.Endpoint.Name, Model: a.d.Model}
		}
		if a.d.Pool == c.Request.Model { // not of those that take any name
			c.p.moved.lacked(time.Now(), c.Request.Model)
		}
		if next = a.another(); next != nil || !a.mayRetry() {
			c.p.relist(a.d.Endpoint.Name)
			return next, nil
		}
		why = c.seek(func() bool {
			next = a.another()
			return next != nil
		})
		return next, why
	case lack.Other && c.Request.Follows != "" && !a.d.AtHolder():
		a.lacks = true
		return a.elsewhere(route.NeedResponse)
	case a.d.Away.Need == route.NeedContext && tooLong(res.StatusCode) && c.Transport == nil:
		a.lacks = true
		return a.elsewhere(route.NeedContext)
	case lack.Use:
		return a.lacking()
	case !lack.Path:
		return nil, nil
	}
	if a.d.Answered {
		c.away = true
		if !a.d.Lost { // once, until it answers there again
			c.p.log.Warn(
				"an endpoint lacks a path under which it has answered: perhaps a proxy there has lost its engine",
				"endpoint", a.d.Endpoint.Name, "path", c.R.URL.Path, "status", res.StatusCode)
		}
	}
	if next, why = a.lacking(); next != nil || why != nil {
		return next, why
	}
	asked, prompts := c.R.URL.Path, c.API != prompt.Other || strings.HasPrefix(c.R.URL.Path, "/api/")
	if a.d.Kind == fleet.KindUnknown || a.d.Kind == fleet.KindOther ||
		!prompts && paths.Known(c.API, c.R.Method, asked) == "" {
		return nil, nil // its answer may be about something else than the path
	}
	if c.away {
		return nil, fault.ErrElsewhere
	}
	lacks := &fault.APIError{Path: asked, Kind: a.d.Kind}
	switch {
	case c.API == prompt.Embeddings && asked != openAIEmbeddings:
		lacks.Instead = openAIEmbeddings
	case c.API != prompt.Embeddings && c.API != prompt.Chat && prompts:
		lacks.Instead = openAIChat
	}
	if whole := "/v1" + asked; !prompts && prompt.Classify(c.R.Method, whole) != prompt.Other {
		lacks.Meant = whole
	}
	return nil, lacks
}

const (
	openAIChat       = "/v1/chat/completions"
	openAIEmbeddings = "/v1/embeddings"
)

// lacking notes that the endpoint does not have the path, and has another one answer.
func (a *attempt) lacking() (next *route.Plan, why error) {
	a.fin.Absent = true
	a.c.Request.Lacking = append(a.c.Request.Lacking, a.d.Endpoint.Name)
	return a.elsewhere(route.NeedPath)
}

// elsewhere has another endpoint answer that may have what this one lacks. Where there is none now, the client is told
// to come again if one has it that cannot take the request: what this one says would be the end of a conversation.
func (a *attempt) elsewhere(need route.Need) (next *route.Plan, why error) {
	if next = a.another(); next == nil && a.d.Away.Need == need {
		return nil, a.d.Away.Error(a.d.Pool)
	}
	return next, nil
}

// tooLong reports whether an engine may have refused a prompt for its length.
func tooLong(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnprocessableEntity
}
