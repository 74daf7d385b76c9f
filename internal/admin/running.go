package admin

import (
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// runningView is a request, or a leg of one, that is placed and has not ended, as JSON.
type runningView struct {
	Request  string    `json:"request"`
	Endpoint string    `json:"endpoint"`
	Tenant   string    `json:"tenant,omitempty"`
	Pool     string    `json:"pool,omitempty"`
	Leg      string    `json:"leg,omitempty"`
	State    string    `json:"state"`  // queued (at the router), computing (its prompt), answering
	Routed   time.Time `json:"routed"` // when it was placed
	Seconds  float64   `json:"seconds"`
}

// running says where the request ?request=ID runs now.
func (a *Admin) running(w http.ResponseWriter, r *http.Request) {
	id, now, out := r.URL.Query().Get("request"), a.c.Now(), []runningView{}
	if id == "" {
		fail(http.StatusBadRequest, "bad_query", "?request=ID names the request, by its X-Request-Id").write(w)
		return
	}
	for _, f := range a.c.Fleet.Running(id) {
		state := "computing"
		switch {
		case f.Answers:
			state = "answering"
		case f.Sent.IsZero():
			state = "queued"
		}
		leg := ""
		if f.Leg != fleet.LegUnsplit {
			leg = f.Leg.String()
		}
		out = append(out, runningView{
			Request: f.Request, Endpoint: f.Endpoint, Tenant: f.Tenant, Pool: f.Pool, Leg: leg, State: state,
			Routed: f.Routed.UTC(), Seconds: now.Sub(f.Routed).Round(time.Millisecond).Seconds(),
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{"running": out})
}
