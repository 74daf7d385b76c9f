// Package kvstream follows the KV events of one engine: which message is next, which are missing, when the engine has started
// anew, and which blocks it holds.
//
// A Stream gives blocks names of its own that depend on the tokens alone, so that a prompt has the same names on every engine. The
// package reads no bytes (package engine does) and draws no conclusions about what an endpoint has cached (package route does).
package kvstream

import (
	"encoding/binary"
	"strconv"

	"github.com/zeebo/xxh3"
)

// Step says what to do with the message that a Stream was told of.
type Step uint8

// The steps.
const (
	Apply   Step = iota // it is the next one
	Drop                // it was applied before
	Gap                 // messages are missing before it: keep it, and ask for them from Stream.From on
	Restart             // the engine has started anew: everything before it is void, then apply it
)

// Stream follows one event stream: one engine, or one data-parallel rank of it. It tells by the sequence numbers what is next, what
// is missing and when the engine has started anew, and it gives blocks names of their own that do not depend on how the engine hashes:
// each covers the tokens of the block and all before it, so that the same prompt has the same names on every engine, whatever the seed and
// the algorithm of its hashes. It is pure, and not safe for concurrent use.
type Stream struct {
	started bool
	next    uint64  // sequence number of the next message
	at      float64 // time of the last one applied, by the engine's clock

	blocks map[uint64]kvBlock // by the engine's hash
	most   int
	size   int    // tokens of a full block
	text   []byte // scratch: tokens as they are hashed
	stats  Counts
}

// kvBlock is a block that the engine holds.
type kvBlock struct {
	name  uint64 // 0 for one whose beginning is not known
	count uint32 // how often it was stored and not removed: two requests may compute the same block at once
	told  uint32 // how often the router was told so, and is still to be told of a removal
}

// Counts counts what a stream brought, since it was made.
type Counts struct {
	Batches         uint64 // messages applied
	Stored          uint64 // blocks
	Removed         uint64 // blocks
	Cleared         uint64 // times that the cache was emptied
	Skipped         uint64 // events that were malformed, unknown, or of layers that hold no prefix
	Orphans         uint64 // blocks stored after one that is not known: messages were lost
	Unknown         uint64 // blocks removed that were not known
	Overfull        uint64 // blocks stored beyond the bound, which are not followed
	Missing         uint64 // messages that never came
	Restarts        uint64 // times that the engine started anew
	Duplicate, Gaps uint64
}

// DefaultBlocks bounds the blocks that one stream follows, at some 40 bytes each: 16 million tokens in blocks of 16.
const DefaultBlocks = 1 << 20

// New makes a stream that follows at most so many blocks; 0 stands for DefaultBlocks.
func New(most int) *Stream {
	if most <= 0 {
		most = DefaultBlocks
	}
	return &Stream{most: most, blocks: map[uint64]kvBlock{}}
}

// Counts is what the stream brought so far.
func (s *Stream) Counts() Counts { return s.stats }

// Held is how many blocks the engine holds by what it told, those whose beginning is not known included.
func (s *Stream) Held() int { return len(s.blocks) }

// Skip counts events that were not read.
func (s *Stream) Skip(events int) { s.stats.Skipped += uint64(events) }

// From is the sequence number to ask for when messages are missing: the last one that was applied, so that its answer also shows
// whether the engine is still the same.
func (s *Stream) From() uint64 {
	if s.next == 0 {
		return 0
	}
	return s.next - 1
}

// Started reports whether a message was applied since the stream was made or last reset.
func (s *Stream) Started() bool { return s.started }

// Step says what a message with this sequence number and time is. Numbers start at 0 with the engine. One that is smaller than expected
// was either applied already, then it is no newer than what was, or the engine has started anew.
func (s *Stream) Step(seq uint64, at float64) Step {
	switch {
	case !s.started && seq == 0, s.started && seq == s.next && at >= s.at-clockSlack:
		return Apply
	case !s.started:
		return Gap
	case seq > s.next:
		s.stats.Gaps++
		return Gap
	case seq == s.next: // the next one, but older: the engine's clock went back by more than it may, or it is another engine
		return Restart
	case seq == s.next-1 && at == s.at, at != 0 && at <= s.at:
		s.stats.Duplicate++
		return Drop
	}
	return Restart
}

// clockSlack is by how many seconds an engine's clock may be set back without being taken for another engine.
const clockSlack = 60

// Same reports whether a message that was asked for again, the last one applied, is still the one that was applied then. If not, the engine
// has started anew, and has come as far again.
func (s *Stream) Same(seq uint64, at float64) bool {
	return !s.started || s.at == 0 || seq != s.next-1 || at == s.at
}

// Reset forgets everything: the engine has started anew, or messages are lost for good. lost says how many are, as far as it is known.
func (s *Stream) Reset(restart bool, lost uint64) {
	if restart {
		s.stats.Restarts++
		s.size = 0 // it may have been started with smaller blocks
	}
	s.stats.Missing += lost
	s.started, s.next, s.at = false, 0, 0
	clear(s.blocks)
}

// Resume goes on after messages that are lost for good: the next one has this number.
func (s *Stream) Resume(seq uint64) { s.started, s.next = true, seq }

// Apply takes in a message with its number, and appends what it means for the router to ops.
func (s *Stream) Apply(seq uint64, b *Batch, ops *Ops) {
	s.started, s.next, s.at = true, seq+1, max(b.At, 0)
	s.stats.Batches++
	s.stats.Skipped += uint64(b.Skipped)
	for i := range b.Events {
		switch e := &b.Events[i]; e.Kind {
		case Stored:
			s.store(e, ops)
		case Removed:
			s.remove(e, ops)
		case Cleared:
			s.stats.Cleared++
			clear(s.blocks)
			ops.add(Op{Kind: Cleared})
		}
	}
}

// store gives the blocks their names.
func (s *Stream) store(e *Event, ops *Ops) {
	if e.Windowed {
		s.stats.Skipped++
		return
	}
	if len(e.Tokens) == 0 { // another tier of the cache, of a block that was told in full before
		s.again(e)
		return
	}
	if e.BlockTokens < s.size {
		s.stats.Skipped++ // the last block of a prompt, not full: nothing can go on from it
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
	op := Op{Kind: Stored, Session: e.Session, Tokens: e.BlockTokens}
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
			known = false // nothing after it is followed either: its removal would not be understood
			continue
		}
		b.count++
		if b.name = name; known {
			b.told++
			ops.names = append(ops.names, name)
		}
		s.blocks[h] = b
	}
	if len(ops.names) > from {
		op.from, op.to = from, len(ops.names)
		ops.add(op)
	}
}

// again counts blocks that are stored once more, told by nothing but their hashes.
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
		for range b.told { // the index counts too
			ops.names = append(ops.names, b.name)
		}
	}
	if len(ops.names) > from {
		ops.add(Op{Kind: Removed, from: from, to: len(ops.names)})
	}
}

// name is the name of a block after its parent.
func (s *Stream) name(parent, extra uint64, tokens []uint32) uint64 {
	s.text = s.text[:0]
	for _, t := range tokens {
		s.text = binary.LittleEndian.AppendUint32(s.text, t)
	}
	if n := xxh3.HashSeed(s.text, parent^extra*0x9e3779b97f4a7c15); n != 0 {
		return n
	}
	return 1 // 0 names no block
}

// kvRoot is what stands for the parent of a prompt's first block.
func kvRoot(e *Event) uint64 {
	if e.Adapter == "" && e.Salt == "" {
		return 0
	}
	return xxh3.HashString(strconv.Itoa(len(e.Adapter)) + ":" + e.Adapter + e.Salt)
}

// Names names the whole blocks of a prompt whose tokens are known as Stream names them, for a prompt without adapter and images.
// extra is what the engine's events have as Event.Extra for its first block, salt as Event.Salt: what a cache salt makes of them
// depends on the engine.
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

// Ops is what messages mean for the router, in order.
type Ops struct {
	List  []Op
	names []uint64
}

// Op is one thing that happened to an endpoint's cache, in the router's own names of blocks.
type Op struct {
	Kind     Kind
	Parent   uint64 // of a stored one: the name of the block before, 0 at the beginning of a prompt
	Session  string
	Tokens   int // a block
	from, to int // of Ops.names
}

func (o *Ops) add(op Op) { o.List = append(o.List, op) }

// Len is how many operations there are.
func (o *Ops) Len() int { return len(o.List) }

// Reset empties it and keeps its memory.
func (o *Ops) Reset() { o.List, o.names = o.List[:0], o.names[:0] }

// Of is the names of an operation's blocks.
func (o *Ops) Of(op *Op) []uint64 { return o.names[op.from:op.to] }

// At is the time of the last message applied, by the engine's clock.
func (s *Stream) At() float64 { return s.at }

// Next is the number of the message that is expected next.
func (s *Stream) Next() uint64 { return s.next }

// Lose counts messages that are lost for good.
func (s *Stream) Lose(messages uint64) { s.stats.Missing += messages }

// Add adds the counts of another stream.
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
