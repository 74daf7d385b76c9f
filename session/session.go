// Package session is the router's memory of conversations: which endpoint serves each one.
//
// A conversation is identified by tenant, model and id; ids are compared whole, never by prefix. The table is bounded
// twice: it holds at most Config.Max conversations and evicts exactly the least recently used one (where entries have
// owners, see Owned, of the owner that has the most), and a conversation expires when it is not written for
// Config.IdleTTL. The semantics are those of session affinity in llm-d (inference payload processor, PR 178: expiring
// LRU, writes extend a life and reads do not), with two changes: names are scoped by tenant and model, and the caller
// passes the time.
//
// Every call takes constant time. An expired conversation is dropped when it is read; others are swept, oldest first, a
// few with each Put and more when the owner calls Sweep. Eviction in batches, which the review of that PR discussed, is
// not needed because evicting one entry needs no scan.
//
// The package starts no goroutine, reads no clock and takes no lock. A Table is not safe for concurrent use.
package session

import (
	"errors"
	"fmt"
	"time"
)

// Default bounds of a table, and the largest possible one.
const (
	DefaultMax     = 100_000
	DefaultIdleTTL = time.Hour
	LargestMax     = 100_000_000
)

// Config bounds the memory of conversations.
type Config struct {
	// Max is the number of conversations remembered; beyond it the least recently used one is forgotten. 0 means
	// 100000. An entry takes about 180 bytes plus its id.
	Max int `yaml:"max"`
	// IdleTTL is how long a conversation is remembered after its last turn. Looking it up does not extend it. 0 means
	// one hour.
	IdleTTL time.Duration `yaml:"idle_ttl"`
	// HashOnly stores a 128-bit hash of each conversation's name instead of the ids that clients sent. Two
	// conversations with the same hash are then treated as one: unlikely by chance, but the hash is not cryptographic,
	// so a client that knows another's id could construct such a pair.
	HashOnly bool `yaml:"hash_only"`
	// SeenIDs is the number of client-sent ids remembered to recognise a conversation's first turn (max_sessions of
	// TensorRT-LLM PR 14744). 0 means 100000.
	SeenIDs int `yaml:"seen_ids"`
}

// WithDefaults is c with each zero bound replaced by its default.
func (c Config) WithDefaults() Config {
	if c.Max == 0 {
		c.Max = DefaultMax
	}
	if c.IdleTTL == 0 {
		c.IdleTTL = DefaultIdleTTL
	}
	if c.SeenIDs == 0 {
		c.SeenIDs = DefaultSeen
	}
	return c
}

// Validate reports every bound that is out of range, joined into one error. Zero bounds are valid: they mean the
// default.
func (c Config) Validate() error {
	var faults []error
	if c.Max < 0 || c.Max > LargestMax {
		faults = append(faults, fmt.Errorf("session: max is %d, must be between 1 and %d (0 means %d)",
			c.Max, LargestMax, DefaultMax))
	}
	if c.SeenIDs < 0 || c.SeenIDs > LargestMax {
		faults = append(faults, fmt.Errorf("session: seen_ids is %d, must be between 1 and %d (0 means %d)",
			c.SeenIDs, LargestMax, DefaultSeen))
	}
	if c.IdleTTL < 0 {
		faults = append(faults, fmt.Errorf("session: idle_ttl is %v, must be above 0 (0 means %v)",
			c.IdleTTL, DefaultIdleTTL))
	}
	return errors.Join(faults...)
}

// Entry is what is remembered of one conversation. The table keeps its strings without copying: they must be names that
// the router shares, not parts of a request's body.
type Entry struct {
	Endpoint string // name of the endpoint that served the last turn
	Model    string // the model that the client's model name resolved to
	Tokens   int    // tokens of prompt and answer so far
	Prompt   int    // tokens of the last turn's prompt, as reported by the engine or else estimated; 0 unknown
	Bytes    int    // canonical bytes of that prompt, 0 unknown
	// blocks of fleet.BlockBytes ever added to the endpoint's cache when the last turn ended, modulo 2^32
	Flow uint32
	// the endpoint's count of lost caches at that time; if it has changed since, Tokens are no longer cached
	Epoch     uint32
	Turns     int       // turns so far
	IdleSince uint32    // when its last answer ended, in ticks of the caller's clock; 0 when a turn is running
	Marks     [4]uint32 // names of places in that prompt, with which the next one is compared; zero unknown
	Leader    string    // of an entry about part of a conversation: the conversation's id
	Last      time.Time // when it was last written; set by the table, ignored by Put
}

// Stats counts operations of a table since New.
type Stats struct {
	Hits        uint64 // Gets that found a live entry
	Misses      uint64 // Gets that did not
	Evictions   uint64 // live entries forgotten to make room
	Expirations uint64 // entries dropped because they were idle for too long
}
