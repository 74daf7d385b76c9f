package send

import (
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// noteStated logs, once in a while for each endpoint, that an engine rejects the form of conversation ids that its
// endpoint states. That form is always sent: only with auto does the router look for one that the engine takes. A leg
// that is rejected so is otherwise seen only in requests that are not split.
func (a *Outgoing) noteStated(res *http.Response, err error) {
	if err != nil || res.StatusCode < http.StatusBadRequest {
		return
	}
	form, member := a.d.Endpoint.IDForm, conversationParams
	switch form {
	case fleet.IDParams:
	case fleet.IDDisagg:
		member = conversationID
	default:
		return
	}
	if a.sentForm != form || !refuses(res, member) {
		return
	}
	p, fresh := a.s, false
	p.asks.note(a.d.Endpoint.Name, func(n *askNote) {
		if fresh = n.refusedID.IsZero() || time.Since(n.refusedID) >= askAgain; fresh {
			n.refusedID = time.Now()
		}
	})
	if fresh {
		p.log.Warn("engine rejects the conversation ids that its endpoint states: conversation_id: "+
			"auto finds the form that it takes",
			"endpoint", a.d.Endpoint.Name, "conversation_id", string(form), "leg", a.d.Leg.String())
	}
}
