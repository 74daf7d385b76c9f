package explain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Answer is what GET /admin/decisions answers: the decisions that were asked for, the newest first.
type Answer struct {
	Decisions []Decision `json:"decisions"`
	Kept      uint64     `json:"kept"`  // decisions and refusals in the ring
	Total     uint64     `json:"total"` // since the start of the router
}

const (
	lastByDefault = 20
	mostAtOnce    = 1000
)

// query is what a reader wants.
type query struct {
	last                            int
	request, endpoint, pool, reason string
	conversation                    string
	after                           uint64 // number: only later ones
}

// parseQuery reads ?last=N&after=N&request=ID&endpoint=&pool=&reason=&conversation=.
func parseQuery(values url.Values) (query, error) {
	q := query{last: lastByDefault}
	for key, v := range values {
		var err error
		switch key {
		case "last":
			if q.last, err = strconv.Atoi(v[0]); err != nil || q.last < 1 || q.last > mostAtOnce {
				return q, fmt.Errorf("last: want a number from 1 to %d, got %q", mostAtOnce, v[0])
			}
		case "after":
			if q.after, err = strconv.ParseUint(v[0], 10, 64); err != nil {
				return q, fmt.Errorf("after: want the number of a decision, got %q", v[0])
			}
		case "request":
			q.request = v[0]
		case "endpoint":
			q.endpoint = v[0]
		case "pool":
			q.pool = v[0]
		case "reason":
			q.reason = v[0]
		case "conversation":
			q.conversation = v[0]
		default:
			return q, fmt.Errorf(
				"unknown parameter %q; known are after, conversation, endpoint, last, pool, reason, request", key)
		}
	}
	return q, nil
}

func (q *query) wants(d *record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	part := func(want string, c cut) bool {
		return want == "" || want[:min(len(want), longestID)] == string(d.text[c.from:c.to])
	}
	reason := string(d.reason)
	if d.refusal {
		reason = Refused
	}
	return is(q.endpoint, d.endpoint) && is(q.pool, d.pool) && is(q.reason, reason) && part(q.request, d.request) &&
		part(q.conversation, d.conversation)
}

// find collects the newest decisions that are wanted.
func (r *Ring) find(q *query) Answer {
	kept, _, next := r.count(0)
	a := Answer{Decisions: []Decision{}, Kept: kept, Total: next - 1}
	var d record
	for n := next; len(a.Decisions) < q.last && r.before(n, &d) && d.number > q.after; n = d.number {
		if q.wants(&d) {
			a.Decisions = append(a.Decisions, d.view())
		}
	}
	return a
}

// ServeHTTP answers GET with the newest decisions that the query asks for, as JSON (Answer).
func (r *Ring) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	values, err := url.ParseQuery(req.URL.RawQuery)
	var q query
	if err == nil {
		q, err = parseQuery(values)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = e.Encode(map[string]any{
			"error": map[string]string{"message": err.Error(), "type": "invalid_request_error", "code": "bad_query"},
		})
		return
	}
	_ = e.Encode(r.find(&q))
}

// Texts are the words of a decision in one line each, for a reader who wants no table.
func (v *Decision) Texts() []string {
	var out []string
	add := func(name, format string, args ...any) {
		out = append(out, fmt.Sprintf("%-13s", name)+fmt.Sprintf(format, args...))
	}
	number := func(p *int) string {
		if p == nil {
			return "not reported"
		}
		return count(*p)
	}
	span := func(p *float64, none string) string {
		if p == nil {
			return none
		}
		return millis(*p)
	}
	if v.Endpoint != "" {
		if v.Predicted.PromptTokens > 0 {
			add("prompt", "%s tokens predicted, %s by the engine",
				count(v.Predicted.PromptTokens), number(v.Observed.PromptTokens))
			add("cached", "%s tokens predicted, %s by the engine",
				count(v.Predicted.CachedTokens), number(v.Observed.CachedTokens))
		}
		seen := "not seen"
		switch {
		case v.Observed.TTFTMs != nil:
			seen = millis(*v.Observed.TTFTMs) + " observed"
		case !v.Stream:
			seen = "not seen: the answer was not streamed"
		}
		if v.generates() {
			add("first token", "%s predicted, %s", span(v.Predicted.TTFTMs, "not"), seen)
		}
		if v.RegretMs != nil {
			add("regret", "%s", span(v.RegretMs, ""))
		}
	}
	add("outcome", "%s after %s", strings.ReplaceAll(v.Outcome, "_", " "), millis(v.Observed.DurationMs))
	return slices.Clip(out)
}
