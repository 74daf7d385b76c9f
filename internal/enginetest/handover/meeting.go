package handover

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// Meetings let two engines with concurrent requests find each other: SGLang's rooms, and the transfer ids of Mooncake
// and MoRI-IO. The prefiller holds one for each; the decoder joins it and waits until the prompt is computed.
//
// The real engines use ZMQ, HTTP and RDMA; here a decoder sends POST /_sim/meet, to the prefiller's bootstrap port if
// the protocol has one.

// meetingHost is the common part of connectors with meetings.
type meetingHost struct {
	*host
	meets meetings

	ports     sync.Mutex   // guards the following fields
	bootstrap *http.Server // nil without one
	address   string
	serving   sync.WaitGroup
}

func newMeeting(h *host) *meetingHost { return &meetingHost{host: h} }

// meetings are those of one prefiller.
type meetings struct {
	mu    sync.Mutex // guards the following fields and the meetings' own
	open  map[string]*meeting
	over  map[string]string // results of ended meetings, the latest mostOver of them
	order []string
}

// meeting is a meeting of two legs. A channel is closed when the event in its name has happened.
type meeting struct {
	prefiller, waiting       bool // the prefill leg is here; a decoder waits
	came, computed, gone     chan struct{}
	hasCome, done, abandoned bool
	taken                    chan struct{}

	prompt, body uint64
	said         string // must be equal on both legs
	decoder      string // the decoder given to the prefiller; "" for none
	rank, cached int
	expires      *time.Timer
}

// meetCall is a decoder's message.
type meetCall struct {
	Key     string `json:"key"`
	Prompt  uint64 `json:"prompt,string"`
	Body    uint64 `json:"body,string"`
	Said    string `json:"said"`
	Decoder string `json:"decoder"`
	Rank    int    `json:"rank"` // -1: not given
}

// meetAnswer is the reply to it.
type meetAnswer struct {
	Cached int `json:"cached"`
}

func (m *meetings) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}

// at returns the meeting of a key, a new one if needed; mu is held.
func (m *meetings) at(key string) *meeting {
	if m.open == nil {
		m.open, m.over = map[string]*meeting{}, map[string]string{}
	}
	if m.open[key] == nil {
		m.open[key] = &meeting{
			came: make(chan struct{}), computed: make(chan struct{}), gone: make(chan struct{}),
			taken: make(chan struct{}), rank: -1,
		}
	}
	return m.open[key]
}

// end removes a meeting; mu is held.
func (m *meetings) end(key, why string) {
	if t := m.open[key]; t == nil || t.expires != nil && !t.expires.Stop() && why != "the lease is over" {
		return
	}
	delete(m.open, key)
	m.over[key] = why
	m.order = append(m.order, key)
	if len(m.order) > mostOver {
		delete(m.over, m.order[0])
		m.order = m.order[1:]
	}
}

// idle removes a meeting without legs and result; mu is held.
func (m *meetings) idle(key string) {
	if t := m.open[key]; t != nil && !t.prefiller && !t.waiting && (!t.done || t.abandoned) {
		delete(m.open, key) // a later decoder waits for ever
	}
}

// forget ends all meetings, for a restart of the engine.
func (m *meetings) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, t := range m.open {
		if !t.abandoned {
			t.abandoned = true
			close(t.gone)
		}
		m.end(key, "the engine was restarted")
	}
}

// post handles a decoder's arrival.
func (h *meetingHost) post(w http.ResponseWriter, r *http.Request) {
	var c meetCall
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&c); err != nil {
		api.WriteJSON(w, http.StatusBadRequest, api.ErrorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	h.meets.mu.Lock()
	if why := h.meets.over[c.Key]; why != "" {
		h.meets.mu.Unlock()
		if why == "the lease is over" || why == "the engine was restarted" {
			gone(w, why)
			return
		}
		conflict(w, "two have met there before: "+why)
		return
	}
	m := h.meets.at(c.Key)
	if m.hasCome {
		h.meets.mu.Unlock()
		conflict(w, "another decoder came before")
		return
	}
	m.hasCome, m.waiting = true, true
	close(m.came)
	h.meets.mu.Unlock()
	defer func() {
		h.meets.mu.Lock()
		m.waiting = false
		h.meets.idle(c.Key)
		h.meets.mu.Unlock()
	}()
	limit := time.NewTimer(h.config.Lease)
	defer limit.Stop()
	select {
	case <-m.computed:
	case <-m.gone:
		panic(http.ErrAbortHandler)
	case <-r.Context().Done():
		return
	case <-h.engine.Closing:
		panic(http.ErrAbortHandler)
	case <-limit.C:
		gone(w, "the prefiller did not come")
		return
	}
	h.hand(w, &c, m)
}

// hand gives the computed prompt to the decoder, if both were given the same parameters.
func (h *meetingHost) hand(w http.ResponseWriter, c *meetCall, m *meeting) {
	lost := h.lost()
	h.meets.mu.Lock()
	defer h.meets.mu.Unlock()
	switch {
	case lost:
		h.meets.end(c.Key, "the lease is over")
		close(m.taken)
		panic(http.ErrAbortHandler)
	case c.Prompt != m.prompt:
		conflict(w, "the KV cache is of another prompt: a real engine answers with a wrong text")
	case c.Body != m.body:
		conflict(w, "the two requests differ")
	case c.Said != m.said:
		conflict(w, "the decoder was told "+c.Said+", the prefiller said "+m.said)
	case m.decoder != "" && c.Decoder != m.decoder:
		conflict(w, "the prefiller was told the decoder "+m.decoder+", it is "+c.Decoder)
	case c.Rank >= 0 && c.Rank != m.rank:
		conflict(w,
			"the decoder was told another rank than the one that computed the prompt: a real one waits for ever")
	default:
		h.meets.end(c.Key, "fetched")
		close(m.taken)
		h.count(&h.stats.Taken)
		api.WriteJSON(w, http.StatusOK, meetAnswer{Cached: m.cached})
	}
}
