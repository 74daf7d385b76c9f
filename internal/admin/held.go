package admin

import (
	"net/http"
	"time"
)

const (
	shownHeld = 100    // held turns on the page and in lists of endpoints
	allHeld   = 10_000 // the router holds no more
)

// heldView is a turn that is held before it is placed (admission), as JSON.
type heldView struct {
	Request      string    `json:"request"`
	Conversation string    `json:"conversation,omitempty"`
	Tenant       string    `json:"tenant,omitempty"`
	Pool         string    `json:"pool"`
	Priority     string    `json:"priority"`
	Tokens       int64     `json:"tokens"`         // of its prompt and the answer expected
	Home         string    `json:"home,omitempty"` // endpoint where its conversation was last
	Since        time.Time `json:"since"`
	Until        time.Time `json:"until"` // when it is placed at the latest
	Seconds      float64   `json:"held_seconds"`
	Left         float64   `json:"seconds_left"` // until then
}

// viewHeld is the held turns, the one with the earliest bound first.
func (a *Admin) viewHeld(most int) []heldView {
	now, out := a.c.Now(), []heldView{}
	for _, h := range a.c.Fleet.HeldTurns(most) {
		out = append(out, heldView{
			Request: h.Request, Conversation: h.Conversation, Tenant: h.Tenant, Pool: h.Pool,
			Priority: h.Priority.String(), Tokens: h.Tokens, Home: h.Home, Since: h.Since.UTC(), Until: h.Until.UTC(),
			Seconds: now.Sub(h.Since).Round(time.Millisecond).Seconds(),
			Left:    max(0, h.Until.Sub(now).Round(time.Millisecond).Seconds()),
		})
	}
	return out
}

// held lists the held turns, or with ?request=ID or ?conversation=ID those of it.
func (a *Admin) held(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	out := []heldView{}
	for _, h := range a.viewHeld(allHeld) {
		is := func(key, got string) bool { want := q.Get(key); return want == "" || want == got }
		if is("request", h.Request) && is("conversation", h.Conversation) {
			out = append(out, h)
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"held": out})
}
