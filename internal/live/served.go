package live

import (
	"net/http"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Served is the story of one client request as its door saw it, told once, at its end. It holds no text.
type Served struct {
	ID       string // X-Request-Id
	API      string // the door's word for the path: chat, completions, ..., other
	Method   string
	Path     string
	Status   int    // HTTP status sent to the client; 499 when it left before one was sent
	Error    string // code of the error body the router itself answered with, "" when an engine answered
	Message  string // of that error, without what an engine said
	Limit    string // setting that refused the request or cut its wait; "" for none
	Foreign  string // host name or origin of the page whose request was refused for it; "" for none
	Unsalted string // name of an endpoint that got it without the salt that keeps its tenant's cache apart; "" for none
	Misnamed Misnamed
	Refused  bool // no engine was sent the request, or Limit cut it
	Class    fleet.Class
	Queued   time.Duration // time in the router's queue
	Attempts int           // endpoints tried
	Stream   bool
	Client   string // address that it came from, with the port unless a proxy has told it; "" if unknown
	Peer     string // address and port of the trusted proxy that has told it, "" for none
	Tenant   string // of the request; "" if unknown
	Key      string // id of the router's API key that it came with; "" for none
	Agent    string // User-Agent
	Trace    string // id of the trace that has its span, in hexadecimal digits; "" where it is not traced

	Started   time.Time
	FirstByte time.Time // first data of the answer passed on; zero when there was none
	LastByte  time.Time
	Ended     time.Time

	BytesIn, BytesOut int64
	Chunks            int // pieces of the answer passed on, one flush each

	Outcome fleet.Outcome // of the last attempt, or of the router's refusal
	// of the last attempt; zero when there was none. Of a request that was split, its decode leg's
	Decision route.Decision
	Prefill  route.Decision // of its prefill leg; zero when it was not split
	HandOver string         // id under which both engines know what was handed over, "" when there is none
	Usage    fleet.Usage

	WantedTTFT, WantedTPOT time.Duration // the client's objectives; 0 for none
}

// FirstToken is the time from a request's arrival to the first data of its answer; ok is false where that is no first
// token: the answer was not streamed, so that its first data came with its last, or there was none.
func (s *Served) FirstToken() (d time.Duration, ok bool) {
	if !s.Stream || s.FirstByte.IsZero() || s.Status >= http.StatusBadRequest {
		return 0, false
	}
	return s.FirstByte.Sub(s.Started), true
}

// Misnamed is an endpoint that is declared with a model which its engine said that it does not have. The zero value is
// none.
type Misnamed struct{ Endpoint, Model string }

// Listener is a set of optional functions that hear what happens. They are called one at a time and must not block.
type Listener struct {
	Entry  func(*route.Entry)                     // called inside the fleet's lock, in the order of decisions
	Served func(*Served)                          // called by the door outside the lock, concurrently
	Retry  func(endpoint string, o fleet.Outcome) // an attempt failed and another will be made; called concurrently
}
