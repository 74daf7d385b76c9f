// Package session is the router's memory of conversations: which endpoint serves each one.
//
// A conversation is known by tenant, model and id together; ids are compared whole and never by prefix. The table is
// bounded twice. It holds at most Config.Max conversations and evicts exactly the least recently used one to make
// room, and a conversation that is not written for Config.IdleTTL is gone. The semantics are those of session
// affinity in llm-d (inference payload processor, PR 178: expiring LRU, reading does not extend a life, writing
// restarts it), with two changes: names are scoped by tenant and model, and the clock is handed in.
//
// Every call costs a constant amount of work. An expired conversation is dropped when it is read; what nobody reads
// is swept, oldest first, a few entries with each Put and more when the owner calls Sweep. Eviction in batches, which
// the review of that PR discussed, is not needed: evicting one entry is a constant amount of work here, with no scan
// to spread over a batch.
//
// The package starts no goroutine, reads no clock and takes no lock. A Table serves one caller at a time.
package session

import (
	"errors"
	"fmt"
	"time"
)

// The bounds of a table whose configuration is silent, and the largest table there can be.
const (
	DefaultMax     = 100_000
	DefaultIdleTTL = time.Hour
	LargestMax     = 100_000_000
)

// Config bounds a Table.
type Config struct {
	// Max is the number of conversations remembered. Beyond it the least recently used one is forgotten. 0 means
	// 100000. An entry takes about 180 bytes beside its id.
	Max int `yaml:"max"`
	// IdleTTL is how long a conversation is remembered after its last turn. Looking it up does not extend it. 0 means
	// one hour.
	IdleTTL time.Duration `yaml:"idle_ttl"`
	// HashOnly keeps a 128-bit hash of each conversation's name and nothing a client sent. Two conversations with the
	// same hash are then one: unlikely by chance, but the hash is not cryptographic, so a client that knows another's
	// id could construct such a pair.
	HashOnly bool `yaml:"hash_only"`
	// SeenIDs is how many ids that clients have sent are known again, so that the first turn of a conversation can be told
	// (max_sessions of TensorRT-LLM PR 14744). 0 means 100000.
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
		faults = append(faults, fmt.Errorf("session: max is %d, must be between 1 and %d (0 means %d)", c.Max, LargestMax, DefaultMax))
	}
	if c.SeenIDs < 0 || c.SeenIDs > LargestMax {
		faults = append(faults, fmt.Errorf("session: seen_ids is %d, must be between 1 and %d (0 means %d)", c.SeenIDs, LargestMax, DefaultSeen))
	}
	if c.IdleTTL < 0 {
		faults = append(faults, fmt.Errorf("session: idle_ttl is %v, must be above 0 (0 means %v)", c.IdleTTL, DefaultIdleTTL))
	}
	return errors.Join(faults...)
}

// Entry is what is remembered of one conversation. The table keeps its strings as they are: they must be names that
// the router shares, not parts of a request's body.
type Entry struct {
	Endpoint string    // name of the endpoint that served the last turn
	Model    string    // what the client's model name was resolved to
	Tokens   int       // tokens of prompt and answer so far
	Prompt   int       // tokens of the last turn's prompt by the engine's count, or as estimated while it has not told; 0 unknown
	Bytes    int       // canonical bytes of that prompt, 0 unknown
	Flow     uint32    // what had been put into the endpoint's cache in all when the last turn ended, modulo 2^32
	Epoch    uint32    // the endpoint's count of lost caches then; when it has moved on, Tokens are no longer there
	Turns    int       // turns so far
	Rest     uint32    // since when it waits for its next turn, in ticks of the caller's clock; 0 when it does not
	Leader   string    // of an entry that is only about a part of a conversation: the conversation's id
	Last     time.Time // when it was last written; set by the table, ignored by Put
}

// Stats counts what a table did since it was made.
type Stats struct {
	Hits        uint64 // Gets that found a live entry
	Misses      uint64 // Gets that did not
	Evictions   uint64 // live entries forgotten to make room
	Expirations uint64 // entries dropped because they were idle for too long
}
