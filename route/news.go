package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// Routers of one fleet exchange what they place and its result, as News. Each enters the others' requests into its own
// accounts, so that all decide as one would; none waits for another. Transport is not part of this package.

// NewsKind is the kind of a piece of news.
type NewsKind uint8

// The kinds of news.
const (
	NewsPlaced       NewsKind = iota // a request was placed: Placed
	NewsSent                         // it was sent from the queue to the engine
	NewsFirstByte                    // its prompt is computed
	NewsTransferring                 // see Transferring
	NewsResponse                     // see ResponseStarted: Response
	NewsEnded                        // Outcome, Usage and Response
	NewsClosed                       // a conversation was closed: Conversation
	NewsHeld                         // the held turns of a pool have changed: Held
)

// News is a message to other routers. It contains no client data: names and prompts are hashes.
type News struct {
	Kind         NewsKind
	Lease        fleet.Lease // of the sending router
	Placed       *Placed
	Outcome      fleet.Outcome
	Usage        fleet.Usage
	Response     session.Key // zero for none
	Conversation session.Key
	Held         HeldNews
}

// HeldNews is the turns of a pool that a router holds, and which of them goes first where there is room, see
// Config.Admission.
type HeldNews struct {
	Pool     uint64 // hash of its name
	Turns    int    // 0: none any more
	Tokens   int64  // that they need beside what is cached
	Priority fleet.Priority
	Tenant   uint64        // hash of its name; 0 for none
	Left     time.Duration // until its bound
}

// Placed is what other routers need to know of a placed request.
type Placed struct {
	Endpoint, Pool uint64 // hashes of their names
	Model          uint16 // of an alias with shares: which of its models, by ModelMark; 0 where that is not said
	Class          fleet.Class
	Leg            fleet.Leg
	Stream         bool
	FirstTurn      bool
	Uncounted      bool // of a turn: its policy had no part in placing it
	Again          bool // a retry
	Repeats        bool // its prompt equals its conversation's latest
	PromptTokens   int
	CachedTokens   int // predicted
	FetchTokens    int // work of fetching those of them that are in the host tier, as tokens computed
	OutputTokens   int
	MaxTokens      int
	PromptBytes    int
	TextBytes      int      // canonical bytes of the prompt
	Chain          []uint64 // names of the prompt's blocks, each for all up to its end
	ReadyMs        float64  // of a decode leg: until its prompt is computed
	Queued         bool     // it is queued:
	Key            float64  // its key there
	Seq            uint64   // tie-break for equal keys of one router
	Tenant         uint64   // hash of its name; 0 for none
	QueueClass     fleet.QueueClass
	Conversation   learnt.Announcement
}

// PeerNews is news from another router.
type PeerNews struct {
	Peer uint64    // the sender, above 0
	At   time.Time // time of the event, by this router's clock
	News *News     // read during Observe only
}

// PeerGone means that another router has left or failed. Its running requests count as ended, with no one to blame.
type PeerGone struct {
	Peer   uint64
	Partly bool // ends a few of its requests, as a step before the event itself, see Router.Ending
}

// Tick lets the router dispatch its queue when no other event occurs. While there are other routers and queued requests
// it should come every few ms, see Router.Queued.
type Tick struct{}

// FleetClock says how far the router's clock is behind the common one, and gives the router's id.
type FleetClock struct {
	Self   uint64
	Offset time.Duration
}

func (PeerNews) event()   {}
func (PeerGone) event()   {}
func (Tick) event()       {}
func (FleetClock) event() {}
