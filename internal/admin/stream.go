package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	mostStreams   = 32               // open at a time; beyond that 503
	streamEvery   = time.Second      // between two looks
	streamSlow    = 5                // looks between two of what changes slowly
	streamPatient = 10 * time.Second // for a reader that does not take what it asked for
	streamNewest  = 25               // decisions in one event
)

// Streams counts the open event streams of an admin listener, and ends those of a handler that another one, perhaps
// with another token, has replaced.
type Streams struct {
	mu   sync.Mutex // guards all below
	open int
	over chan struct{} // closed to end the streams of the newest handler
}

// NewStreams has no open streams.
func NewStreams() *Streams { return &Streams{over: make(chan struct{})} }

// renew ends the streams of the handler before, also those that it begins later, and says when those of the new one are
// over.
func (s *Streams) renew() (over <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	s.over = make(chan struct{})
	return s.over
}

// enter takes a place; false if all are taken.
func (s *Streams) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= mostStreams {
		return false
	}
	s.open++
	return true
}

func (s *Streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// look is the state of the fleet at one time, encoded once for all readers.
type look struct {
	at        time.Time
	names     []string
	endpoints map[string]json.RawMessage
	stats     json.RawMessage
	held      json.RawMessage
	troubles  json.RawMessage
}

// fleetEvent is the event "fleet": what has changed since the reader's last one.
type fleetEvent struct {
	At        int64             `json:"at"`              // ms since 1970
	Names     []string          `json:"names,omitempty"` // of all endpoints in order, when that has changed
	Endpoints []json.RawMessage `json:"endpoints,omitempty"`
	Stats     json.RawMessage   `json:"stats"`
	Held      json.RawMessage   `json:"held"`
	Troubles  json.RawMessage   `json:"troubles,omitempty"`
}

// lastLook is the newest look, renewed when it is old.
type lastLook struct {
	mu  sync.Mutex // guards got, and is held while one is taken: several readers cost as much as one
	got *look
}

func (a *Admin) look(replicas json.RawMessage) *look {
	a.last.mu.Lock()
	defer a.last.mu.Unlock()
	now := a.c.Now()
	if l := a.last.got; l != nil && now.Sub(l.at) < streamEvery/2 {
		return l
	}
	views, st := a.views(nil), a.viewStats()
	l := &look{
		at: now, endpoints: make(map[string]json.RawMessage, len(views)), stats: encode(st),
		held: encode(a.viewHeld(shownHeld)),
	}
	for i := range views {
		l.names = append(l.names, views[i].Name)
		l.endpoints[views[i].Name] = encode(views[i])
	}
	l.troubles = encode(listTroubles(views, &st, a.c.Tally.since(now, 0), replicas))
	a.last.got = l
	return l
}

// stream answers with server-sent events until the reader leaves: fleet every second with what has changed, history
// every ten seconds, decisions as they end, shadow and replicas every five seconds. Each look is the present one, so a
// slow reader misses looks and nothing piles up.
func (a *Admin) stream(w http.ResponseWriter, r *http.Request) {
	if !a.c.Streams.enter() {
		w.Header().Set("Retry-After", "5")
		fail(http.StatusServiceUnavailable, "too_many_streams",
			"%d event streams are open; close a page, or ask GET /admin/endpoints", mostStreams).write(w)
		return
	}
	defer a.c.Streams.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &reader{
		admin: a, to: w, control: http.NewResponseController(w), sent: map[string]string{}, same: map[string]string{},
	}
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for n := 0; s.show(n) == nil; n++ {
		select {
		case <-r.Context().Done():
			return
		case <-a.over:
			return
		case <-tick.C:
		}
	}
}

// reader is one open stream, with what it has been sent.
type reader struct {
	admin   *Admin
	to      http.ResponseWriter
	control *http.ResponseController

	sent     map[string]string // endpoints, as they were sent last
	same     map[string]string // slow answers, as they were sent last
	names    string
	troubles string
	point    int64  // the newest of the history
	decision uint64 // the newest
	replicas json.RawMessage
}

// show sends what is new at the n-th look.
func (s *reader) show(n int) error {
	// where the connection has none, the reader is this program's own test
	_ = s.control.SetWriteDeadline(time.Now().Add(streamPatient))
	a := s.admin
	var b bytes.Buffer
	if n%streamSlow == 0 {
		s.replicas = ask(a.c.Replicas, "/admin/replicas")
		s.changed(&b, "replicas", s.replicas)
		s.changed(&b, "shadow", ask(a.c.Shadow, "/admin/shadow"))
	}
	s.fleet(&b, a.look(s.replicas))
	if more := a.c.Tally.since(a.c.Now(), s.point); len(more) > 0 {
		s.point = more[len(more)-1].At
		event(&b, "history", encode(map[string]any{"seconds": pointSeconds, "points": more}))
	}
	if got := ask(a.c.Decisions,
		"/admin/decisions?last="+strconv.Itoa(streamNewest)+"&after="+strconv.FormatUint(s.decision, 10)); got != nil {
		var newest struct{ Decisions []struct{ Number uint64 } }
		if json.Unmarshal(got, &newest) == nil && len(newest.Decisions) > 0 {
			s.decision = newest.Decisions[0].Number
			event(&b, "decisions", got)
		}
	}
	if _, err := s.to.Write(b.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}

// fleet sends the endpoints that differ from what was sent, and the totals.
func (s *reader) fleet(b *bytes.Buffer, l *look) {
	e := fleetEvent{At: l.at.UnixMilli(), Stats: l.stats, Held: l.held}
	if names := fmt.Sprintf("%q", l.names); names != s.names {
		s.names, e.Names = names, l.names
		for name := range s.sent {
			if l.endpoints[name] == nil {
				delete(s.sent, name)
			}
		}
	}
	for _, name := range l.names {
		if now := l.endpoints[name]; s.sent[name] != string(now) {
			s.sent[name] = string(now)
			e.Endpoints = append(e.Endpoints, now)
		}
	}
	if string(l.troubles) != s.troubles {
		s.troubles, e.Troubles = string(l.troubles), l.troubles
	}
	event(b, "fleet", encode(e))
}

// changed sends an answer that differs from the one before.
func (s *reader) changed(b *bytes.Buffer, name string, now json.RawMessage) {
	if now != nil && s.same[name] != string(now) {
		s.same[name] = string(now)
		event(b, name, now)
	}
}

// event writes one; data is JSON in one line.
func event(b *bytes.Buffer, name string, data json.RawMessage) {
	fmt.Fprintf(b, "event: %s\ndata: %s\n\n", name, bytes.TrimSpace(data))
}

// encode is a value of ours as JSON, which cannot fail.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("admin: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// ask is what one of the handlers beside this one answers, in one line; nil where there is none, or it fails.
func ask(h http.Handler, target string) json.RawMessage {
	if h == nil {
		return nil
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil
	}
	w := answer{head: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(&w, &http.Request{
		Method: http.MethodGet, URL: u, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	})
	var line bytes.Buffer
	if w.status != http.StatusOK || json.Compact(&line, w.body.Bytes()) != nil {
		return nil
	}
	return line.Bytes()
}

// answer is a ResponseWriter that keeps what it is given.
type answer struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.head }

// WriteHeader implements http.ResponseWriter.
func (w *answer) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }
