// Package kvstream follows the KV events of one engine: the order of messages, gaps, restarts of the engine, and the
// blocks it holds.
//
// A Stream names blocks by their tokens alone, so that a prompt has the same names on every engine. It counts a block
// as cached as long as any medium of the engine has it (GPU, host memory, disk), and tells only that there are several:
// see Ops.Tiers. What only a slower one has, and how long that takes, the router estimates. The package parses no bytes
// (package engine/kv does) and makes no predictions (route/internal/cache does).
package kvstream

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"
)

// Step is what to do with a message of the stream.
type Step uint8

// The steps.
const (
	Apply   Step = iota // it is the next message
	Drop                // it was applied before
	Gap                 // messages are missing before it: keep it, and request them from Stream.From on
	Restart             // the engine has restarted: discard what is known, then apply it
)

// Stream follows the events of one engine, or of one data-parallel rank. Sequence numbers show gaps and restarts. It
// names each block by a hash of its tokens and all before, so names do not depend on the engine's own hash function or
// seed. It is pure and not safe for concurrent use.
type Stream struct {
	started bool
	next    uint64  // sequence number of the next message
	at      float64 // time of the last message applied, by the engine's clock

	blocks map[uint64]kvBlock // by the engine's hash; at most `most` entries
	most   int
	size   int    // tokens of a full block
	text   []byte // scratch: tokens to be hashed
	stats  Counts
	tiers  bool // see Ops.Tiers
}

// kvBlock is a block that the engine holds.
type kvBlock struct {
	name     uint64 // 0 if the prefix before it is unknown
	count    uint32 // times stored minus times removed: two requests may compute the same block at once
	reported uint32 // times reported to the router as stored and not yet as removed
}

// Counts are the counters of a stream since New.
type Counts struct {
	Batches   uint64 // messages applied
	Stored    uint64 // blocks
	Removed   uint64 // blocks
	Cleared   uint64 // times the cache was emptied
	Skipped   uint64 // events that were malformed, unknown, or of layers that hold no prefix
	Orphans   uint64 // blocks stored after an unknown block: messages were lost
	Unknown   uint64 // removed blocks that were unknown
	Overfull  uint64 // blocks stored beyond the limit, which are not tracked
	Missing   uint64 // messages lost for good
	Restarts  uint64 // restarts of the engine
	Duplicate uint64 // messages dropped since they were applied before
	Gaps      uint64 // times that messages were missing
}

// DefaultBlocks is the default limit on tracked blocks of a stream, about 40 bytes each: 16 million tokens in blocks of
// 16.
const DefaultBlocks = 1 << 20

// New returns a stream that tracks at most this many blocks; 0 means DefaultBlocks.
func New(most int) *Stream {
	if most <= 0 {
		most = DefaultBlocks
	}
	return &Stream{most: most, blocks: map[uint64]kvBlock{}}
}

// Counts returns the counters.
func (s *Stream) Counts() Counts { return s.stats }

// Len is the number of tracked blocks, including those whose prefix is unknown.
func (s *Stream) Len() int { return len(s.blocks) }

// Skip counts events that could not be parsed.
func (s *Stream) Skip(events int) { s.stats.Skipped += uint64(events) }

// From is the sequence number from which to request missing messages. It is the last one applied, so that the reply
// shows whether the engine has restarted (see Same).
func (s *Stream) From() uint64 {
	if s.next == 0 {
		return 0
	}
	return s.next - 1
}

// Started reports whether a message was applied since New or the last Reset.
func (s *Stream) Started() bool { return s.started }

// Step classifies a message by its sequence number and time. Engines number from 0. A smaller number than expected is
// either a duplicate, no newer than the last message, or shows a restart.
func (s *Stream) Step(seq uint64, at float64) Step {
	switch {
	case !s.started && seq == 0, s.started && seq == s.next && at >= s.at-clockSlack:
		return Apply
	case !s.started:
		return Gap
	case seq > s.next:
		s.stats.Gaps++
		return Gap
	case seq == s.next:
		// the next number but an older time: the clock went back further than clockSlack, or it is another engine
		return Restart
	case seq == s.next-1 && at == s.at, at != 0 && at <= s.at:
		s.stats.Duplicate++
		return Drop
	}
	return Restart
}

// clockSlack is how many seconds an engine's clock may go back before that counts as a restart.
const clockSlack = 60

// Same reports whether the last applied message, requested again, is unchanged. If not, the engine has restarted and
// reached the same number again.
func (s *Stream) Same(seq uint64, at float64) bool {
	return !s.started || s.at == 0 || seq != s.next-1 || at == s.at
}

// Reset forgets everything after a restart or a loss of messages. lost is the number of lost messages, 0 if unknown.
func (s *Stream) Reset(restart bool, lost uint64) {
	if restart {
		s.stats.Restarts++
		s.size = 0 // it may have restarted with smaller blocks
	}
	s.Lose(lost)
	s.started, s.next, s.at = false, 0, 0
	clear(s.blocks)
}

// Resume continues after a loss: the next message has number seq.
func (s *Stream) Resume(seq uint64) { s.started, s.next = true, seq }

// Apply applies a message and appends its effects on the cache to ops.
func (s *Stream) Apply(seq uint64, b *Batch, ops *Ops) {
	s.started, s.next, s.at = true, seq+1, max(b.At, 0)
	s.stats.Batches++
	s.stats.Skipped += uint64(b.Skipped)
	for i := range b.Events {
		switch e := &b.Events[i]; e.Kind {
		case Stored:
			s.tiers = s.tiers || e.Medium != "" && !strings.EqualFold(e.Medium, "GPU")
			s.store(e, ops)
		case Removed:
			s.remove(e, ops)
		case Cleared:
			s.stats.Cleared++
			clear(s.blocks)
			ops.add(Op{Kind: Cleared})
		}
	}
	ops.Tiers = ops.Tiers || s.tiers
}

// store names the blocks of a stored event.
func (s *Stream) store(e *Event, ops *Ops) {
	if e.Windowed {
		s.stats.Skipped++
		return
	}
	if len(e.Tokens) == 0 { // another tier of the cache stored a block that was reported in full before
		s.again(e)
		return
	}
	if e.BlockTokens < s.size {
		s.stats.Skipped++ // the last block of a prompt, not full: no block can follow it
		return
	}
	s.size = e.BlockTokens
	parent, known := kvRoot(e), true
	if e.HasParent {
		p := s.blocks[e.Parent]
		if parent, known = p.name, p.name != 0; !known {
			s.stats.Orphans += uint64(len(e.Hashes))
		}
	}
	s.stats.Stored += uint64(len(e.Hashes))
	op := Op{Kind: Stored, Session: e.Session}
	if e.HasParent {
		op.Parent = parent
	}
	from := len(ops.names)
	for i, h := range e.Hashes {
		extra := uint64(0)
		if len(e.Extra) > 0 {
			extra = e.Extra[i]
		}
		name := uint64(0)
		if known {
			name = s.name(parent, extra, e.Tokens[i*e.BlockTokens:(i+1)*e.BlockTokens])
			parent = name
		}
		b, held := s.blocks[h]
		if !held && len(s.blocks) >= s.most {
			s.stats.Overfull++
			known = false // blocks after it are not tracked either: their removal could not be interpreted
			continue
		}
		b.count++
		if known { // one that is held keeps its name otherwise: its removal must name what was told
			b.name = name
			b.reported++
			ops.names = append(ops.names, name)
		}
		s.blocks[h] = b
	}
	if len(ops.names) > from {
		op.from, op.to = from, len(ops.names)
		ops.add(op)
	}
}

// again counts blocks that are stored once more and reported by hash alone.
func (s *Stream) again(e *Event) {
	for _, h := range e.Hashes {
		b, held := s.blocks[h]
		if !held {
			s.stats.Skipped++
			continue
		}
		b.count++
		s.blocks[h] = b
	}
}

func (s *Stream) remove(e *Event, ops *Ops) {
	if e.Windowed {
		s.stats.Skipped++
		return
	}
	from := len(ops.names)
	for _, h := range e.Hashes {
		b, held := s.blocks[h]
		if !held {
			s.stats.Unknown++
			continue
		}
		s.stats.Removed++
		if b.count--; b.count > 0 {
			s.blocks[h] = b
			continue
		}
		delete(s.blocks, h)
		for range b.reported { // the index counts occurrences too
			ops.names = append(ops.names, b.name)
		}
	}
	if len(ops.names) > from {
		ops.add(Op{Kind: Removed, from: from, to: len(ops.names)})
	}
}

// name is the name of the block with these tokens after a parent.
func (s *Stream) name(parent, extra uint64, tokens []uint32) uint64 {
	s.text = slices.Grow(s.text[:0], 4*len(tokens))[:4*len(tokens)]
	// in place: this takes most of the time
	for at := s.text; len(tokens) > 0 && len(at) >= 4; at, tokens = at[4:], tokens[1:] {
		binary.LittleEndian.PutUint32(at, tokens[0])
	}
	if n := xxh3.HashSeed(s.text, parent^extra*0x9e3779b97f4a7c15); n != 0 {
		return n
	}
	return 1 // 0 means unknown
}

// kvRoot stands for the parent of a prompt's first block.
func kvRoot(e *Event) uint64 {
	if e.Adapter == "" && e.Salt == "" {
		return 0
	}
	return xxh3.HashString(strconv.Itoa(len(e.Adapter)) + ":" + e.Adapter + e.Salt)
}

// Names returns the names that Stream gives to the whole blocks of a prompt without adapter and images. extra and salt
// are those of the engine's events (Event.Extra of the first block, Event.Salt); how a cache salt appears there depends
// on the engine.
func Names(tokens []uint32, blockTokens int, salt string, extra uint64, to []uint64) []uint64 {
	if blockTokens <= 0 {
		return to
	}
	var s Stream
	parent := kvRoot(&Event{Salt: salt})
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		parent = s.name(parent, extra, tokens[:blockTokens])
		to, extra = append(to, parent), 0
	}
	return to
}

// Ops are the effects of messages on the cache, in order.
type Ops struct {
	List  []Op
	Tiers bool // the engine has reported blocks in another medium than its own memory, in these messages or before
	names []uint64
}

// Op is one change of an endpoint's cache, in the names of Stream.
type Op struct {
	Kind     Kind
	Parent   uint64 // of a stored op: the block before the first; 0 at the beginning of a prompt
	Session  string
	from, to int // range in Ops.names
}

func (o *Ops) add(op Op) { o.List = append(o.List, op) }

// Len is the number of operations.
func (o *Ops) Len() int { return len(o.List) }

// Reset empties o, and keeps its memory unless that is a lot.
func (o *Ops) Reset() {
	if opBytes*cap(o.List)+8*cap(o.names) > mostKept {
		*o = Ops{}
	}
	o.List, o.names, o.Tiers = o.List[:0], o.names[:0], false
}

// opCost is what an operation counts in Steps beside its blocks.
const opCost = 8

// Steps calls do with the operations in order, in pieces of about so many blocks. It cuts an operation only if it has
// more than twice as many: its second part looks like one that goes on with a prompt. do must not keep what it gets.
func (o *Ops) Steps(blocks int, do func(some *Ops)) {
	some, n := Ops{names: o.names, Tiers: o.Tiers}, 0
	flush := func() {
		if n > 0 {
			do(&some)
			some.List, n = some.List[:0], 0
		}
	}
	for _, op := range o.List {
		if n+opCost+op.to-op.from > blocks {
			flush()
		}
		for op.to-op.from > 2*blocks {
			piece := op
			piece.to = op.from + blocks
			some.add(piece)
			n = blocks
			flush()
			if op.from = piece.to; op.Kind == Stored {
				op.Parent = o.names[op.from-1]
			}
		}
		some.add(op)
		n += opCost + op.to - op.from
	}
	flush()
}

// Of returns the names of an operation's blocks.
func (o *Ops) Of(op *Op) []uint64 { return o.names[op.from:op.to] }

// At is the engine's time of the last message applied, in seconds since 1970.
func (s *Stream) At() float64 { return s.at }

// Next is the expected sequence number.
func (s *Stream) Next() uint64 { return s.next }

// mostLost is how many messages one gap counts for at most: what a busy engine sends in days. Numbers come from
// engines, and a counter whose steps they choose would run over, and seem to go back.
const mostLost = 1 << 32

// Lose counts messages as lost for good, at most mostLost.
func (s *Stream) Lose(messages uint64) { s.stats.Missing += min(messages, mostLost) }

// Add adds the counters of another stream.
func (c *Counts) Add(o Counts) {
	c.Batches += o.Batches
	c.Stored += o.Stored
	c.Removed += o.Removed
	c.Cleared += o.Cleared
	c.Skipped += o.Skipped
	c.Orphans += o.Orphans
	c.Unknown += o.Unknown
	c.Overfull += o.Overfull
	c.Missing += o.Missing
	c.Restarts += o.Restarts
	c.Duplicate += o.Duplicate
	c.Gaps += o.Gaps
}
