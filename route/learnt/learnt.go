// Package learnt is what a router has learnt, as plain values: of endpoints, models and conversations. Package route
// puts them into the pieces of a snapshot, from which a router starts warm, and tells other routers some of them.
//
// It owns the form of these values, and computes nothing: each room of package route writes and reads its own. Who
// stores them needs to know no more than that gob and the like can write all of them; the names of the fields are part
// of what is stored. They hold no text of any prompt. Times are in ms and sizes in tokens unless a field says
// otherwise; what is not known is 0. Sums are those of package fit, where later samples weigh more.
package learnt

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

// Endpoint is the learnt state of an endpoint. It applies to an endpoint with the same name, URL and part.
type Endpoint struct {
	Name, URL string
	Part      fleet.Part
	Cache     Cache
	Speed     Speed
}

// Cache is what is known of an endpoint's cache beside its content.
type Cache struct {
	Flow        int64   // blocks of fleet.BlockBytes computed so far
	Bound, Told int     // blocks that it holds: by what was found there, and by what its engine states
	Share       float64 // Bound as a share of Told
	// of prompts that it was predicted to have: the sum of the shares that were not found, and their number
	Missing, Losses float64
	Unit            int // tokens in whose multiples it finds prompts
	Fits            int // answers that only Unit explains
}

// Chain is a chain of blocks that an endpoint's cache is believed to hold, by their names: the first Same of the chain
// before it, then Rest.
type Chain struct {
	Same int
	Rest []uint64
}

// Speed is what is known of an endpoint's speed.
type Speed struct {
	Prefill Prefill
	// whether it computes one prompt after another: the time of prompts without company over their tokens, of those
	// with none in front, and of those with company over the tokens in front and the tokens that came soon after
	Alone  fit.Ratio
	First  fit.Ratio
	Others fit.Plane
	// of prompts with company: own tokens × tokens in front, and × tokens soon after
	Front, Soon fit.Sum
	Pace        fit.Line      // time of a token of an answer over the number of other answers
	Moves       int           // transfers seen
	MovesAge    time.Duration // since the latest of them
	Shared      Moves
}

// Prefill is how long an endpoint takes for prompts.
type Prefill struct {
	Samples   int
	PerToken  float64      // of a prompt
	Fixed     fit.Quantile // of a prompt that comes to an idle engine, besides its tokens
	PerAnswer fit.Mean     // of a token of an answer after the first
	Hold      fit.Mean     // from first byte to end of a request
	PerStep   float64      // of a token of an answer that is not streamed, after the first, without prompts beside it
	Far       fit.Mean     // tokens of prompts computed while one is fetched from a second tier
	// Line begins with an assumption: its weight in tokens², the part of Line.AA that is no sample, and the time of a
	// token that Line.AY has for it
	Prior, Assumed float64
	Line           fit.Plane // time over tokens of prompts, and over tokens of answers that are not streamed
}

// Moves is how long transfers of KV cache to an endpoint take.
type Moves struct {
	PerToken float64      // of a token; 0 before the first transfer
	Fixed    fit.Quantile // of a transfer, besides its tokens
	Prior    float64      // PerToken as it was assumed before the first transfer
	Line     fit.Line     // time over tokens × transfers at a time
}

// Fleet is what is known of the speeds of all endpoints together. It stands for those that have shown none yet.
type Fleet struct {
	Pace    fit.Line // time of a token of an answer over the number of other answers
	Prompts FleetPrefill
}

// FleetPrefill is how long prompts take in the fleet.
type FleetPrefill struct {
	Line      fit.Ratio    // time over tokens
	Prior     float64      // weight of the time that is assumed at first beside it, in tokens²
	PerToken  float64      // from both; before the first sample, from what the first prompt shows
	Fixed     fit.Quantile // of a prompt, besides its tokens
	PerAnswer fit.Mean     // of a token of an answer after the first
	Hold      fit.Mean     // from first byte to end of a request
}

// Pool is what is known of the requests of a model or alias.
type Pool struct {
	Name    string
	Size    Size
	Missing float64 // mean share of an answer's tokens that the next turn does not find cached
	Seen    int     // its samples
	Parts   bool    // its requests may be split
	// of whole requests and decode legs, and of prefill legs: first turns, later ones, and tokens that a turn computes
	Turns, Prompts [3]float64
}

// Size is how many tokens the prompts and answers of a model have.
type Size struct {
	Text          fit.Plane // tokens over those assumed at first: of beginnings of words, and of digits and the like
	Medium        fit.Mean  // tokens of an image, audio or file
	TokensPerByte float64   // mean, of prompts of which only the length is known
	Counted       int       // its samples
	Output        fit.Mean  // tokens of an answer
}

// Conversations is what is known of some conversations and stored responses. Its entries refer to strings by index into
// Names.
type Conversations struct {
	Names []string
	// those that a client has named, those whose id no client has sent back yet, and responses
	Claimed, Unclaimed, Responses []Conversation

	Ends  []End          // ends of prompts, by which conversations are recognised
	Tails []session.Tail // where ends are to be looked for
	Users []User
	Seen  []session.SeenID // ids that clients have sent

	announced []Announcement
}

// AddAnnounced adds what recognises a conversation that is stored by itself, in place of Ends, Tails and Users. It is
// not stored with the other fields.
func (c *Conversations) AddAnnounced(h *Announcement) { c.announced = append(c.announced, *h) }

// Announced is what AddAnnounced has added.
func (c *Conversations) Announced() []Announcement { return c.announced }

// Conversation is a conversation or a response.
type Conversation struct {
	Hi, Lo   uint64 // hash of its name, see session.KeyFrom
	Endpoint int    // that had its latest turn, by index
	Model    int    // that it got there, likewise
	Leader   int    // of a part of a conversation, or a response: the id of the whole, likewise
	Tokens   int    // of prompt and answer so far
	Prompt   int    // tokens of the latest prompt
	Bytes    int    // of the latest prompt, in its canonical form
	Flow     uint32 // Cache.Flow when its latest turn ended, modulo 2^32
	Warm     bool   // its endpoint's cache has not been lost since
	Turns    int
	Age      time.Duration // since its latest turn
}

// End is the end of a prompt.
type End struct {
	Key, Main uint64 // one of its hashes, and the most specific one
	ID        int    // of its conversation, as the index of a name
	Answer    bool   // it is the answer with which a conversation went on
	Extended  bool   // a later prompt went on from it
	Repeated  bool   // the same prompt came again before
	Shared    bool   // prompts of several conversations end so
}

// User is a user whose requests do not name their conversation.
type User struct {
	Key  uint64
	ID   int           // of the conversation, as the index of a name
	Age  time.Duration // since the user was last seen
	Said bool          // the conversation is recognised by its content
	Many bool          // there are several: the user identifies none
}

// Announcement is what a router tells others of the conversation of a request that it placed: hashes, and the id if a
// router minted it. Ids of clients are not told.
type Announcement struct {
	Key    session.Key // of the conversation; zero for none
	Parent session.Key // of the one that started it; zero for none
	ID     string      // minted id; "" for a client's own
	Minted bool        // no client has sent the id yet
	Named  bool        // the client named the conversation
	First  bool        // first attempt at the request
	Trail  session.Noted
	User   session.Key // of the named user, where the conversation is recognised otherwise:
	ByUser bool        // or where it is recognised by the user alone
	Opens  bool        // counts as a running request of the user
}
