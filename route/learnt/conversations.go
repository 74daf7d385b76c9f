package learnt

import (
	"time"

	"github.com/warmpath/warmpath/session"
)

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
