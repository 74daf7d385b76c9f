package handover

import (
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// leases are the blocks that a prefiller holds for decoders. The host's mu guards them.
type leases struct {
	held  map[string]*lease
	over  map[string]string // results of ended leases, the latest mostOver of them
	order []string
}

const mostOver = 4096

// lease is the blocks of one prompt.
type lease struct {
	params  []byte // as handed over, canonical
	prompt  uint64
	length  int // of the prompt in bytes, where its tokens do not tell
	expires *time.Timer
}

// hold keeps a prompt's blocks until they are fetched or the lease expires; mu is held.
func (h *host) hold(key string, l *lease) {
	l.expires = time.AfterFunc(h.config.Lease, func() { h.end(key, "the lease is over", &h.stats.Expired) })
	if h.held == nil {
		h.held, h.over = map[string]*lease{}, map[string]string{}
	}
	h.held[key] = l
	h.stats.Handed++
}

// take ends a lease for a decoder that fetches it, once, and reports whether it did. l is nil when none is open, and
// why says how it ended, "" for never begun; changed names the decoder's parameters that differ from those it was
// given, prompt is its prompt's hash. A wrong decoder gets the reason.
func (h *host) take(w http.ResponseWriter, key string, l *lease, why, changed, prompt string) bool {
	wrong := changed
	switch {
	case l == nil && why != "":
		wrong = "the blocks were used before: " + why
	case l == nil:
		wrong = "there are no such blocks"
	case changed != "":
	case prompt != strconv.FormatUint(l.prompt, 16):
		wrong = "the blocks are of another prompt: a real engine answers with a wrong text"
	default:
		if h.end(key, "fetched", &h.stats.Taken) {
			return true
		}
		wrong = "the blocks were used before"
	}
	conflict(w, wrong)
	return false
}

// end closes a lease and counts it; it reports whether it was open.
func (h *host) end(key, why string, counter *uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.held[key]
	if !ok {
		return false
	}
	l.expires.Stop()
	delete(h.held, key)
	*counter++
	h.over[key] = why
	h.order = append(h.order, key)
	if len(h.order) > mostOver {
		delete(h.over, h.order[0])
		h.order = h.order[1:]
	}
	return true
}

// dropLeases drops all leases.
func (h *host) dropLeases() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, l := range h.held {
		l.expires.Stop()
		delete(h.held, key)
	}
}

// openLeases is the number of leases.
func (h *host) openLeases() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

func conflict(w http.ResponseWriter, wrong string) {
	api.WriteJSON(w, http.StatusConflict, api.ErrorObject(http.StatusConflict, "Conflict", wrong))
}

func gone(w http.ResponseWriter, why string) {
	api.WriteJSON(w, http.StatusGone, api.ErrorObject(http.StatusGone, "Gone", why))
}
