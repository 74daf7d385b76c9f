package route

import (
	"encoding/binary"
	"strconv"

	"github.com/zeebo/xxh3"
)

// KVStep says what to do with the message that a KVStream was told of.
type KVStep uint8

// The steps.
const (
	KVApply   KVStep = iota // it is the next one
	KVDrop                  // it was applied before
	KVGap                   // messages are missing before it: keep it, and ask for them from KVStream.From on
	KVRestart               // the engine has started anew: everything before it is void, then apply it
)

// KVStream follows one event stream: one engine, or one data-parallel rank of it. It tells by the sequence numbers what is next, what
// is missing and when the engine has started anew, and it gives blocks names of their own that do not depend on how the engine hashes:
// each covers the tokens of the block and all before it, so that the same prompt has the same names on every engine, whatever the seed and
// the algorithm of its hashes. It is pure, and not safe for concurrent use.
type KVStream struct {
	started bool
	next    uint64  // sequence number of the next message
	at      float64 // time of the last one applied, by the engine's clock

	blocks map[uint64]kvBlock // by the engine's hash
	most   int
	size   int    // tokens of a full block
	text   []byte // scratch: tokens as they are hashed
	stats  KVCounts
}

// kvBlock is a block that the engine holds.
type kvBlock struct {
	name  uint64 // 0 for one whose beginning is not known
	count uint32 // how often it was stored and not removed: two requests may compute the same block at once
	told  uint32 // how often the router was told so, and is still to be told of a removal
}

// KVCounts counts what a stream brought, since it was made.
type KVCounts struct {
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

// DefaultKVBlocks bounds the blocks that one stream follows, at some 40 bytes each: 16 million tokens in blocks of 16.
const DefaultKVBlocks = 1 << 20

// NewKVStream makes a stream that follows at most so many blocks; 0 stands for DefaultKVBlocks.
func NewKVStream(most int) *KVStream {
	if most <= 0 {
		most = DefaultKVBlocks
	}
	return &KVStream{most: most, blocks: map[uint64]kvBlock{}}
}

// Counts is what the stream brought so far.
func (s *KVStream) Counts() KVCounts { return s.stats }

// Held is how many blocks the engine holds by what it told, those whose beginning is not known included.
func (s *KVStream) Held() int { return len(s.blocks) }

// Skip counts events that were not read.
func (s *KVStream) Skip(events int) { s.stats.Skipped += uint64(events) }

// From is the sequence number to ask for when messages are missing: the last one that was applied, so that its answer also shows
// whether the engine is still the same.
func (s *KVStream) From() uint64 {
	if s.next == 0 {
		return 0
	}
	return s.next - 1
}

// Started reports whether a message was applied since the stream was made or last reset.
func (s *KVStream) Started() bool { return s.started }

// Step says what a message with this sequence number and time is. Numbers start at 0 with the engine. One that is smaller than expected
// was either applied already, then it is no newer than what was, or the engine has started anew.
func (s *KVStream) Step(seq uint64, at float64) KVStep {
	switch {
	case !s.started && seq == 0, s.started && seq == s.next && at >= s.at-clockSlack:
		return KVApply
	case !s.started:
		return KVGap
	case seq > s.next:
		s.stats.Gaps++
		return KVGap
	case seq == s.next: // the next one, but older: the engine's clock went back by more than it may, or it is another engine
		return KVRestart
	case seq == s.next-1 && at == s.at, at != 0 && at <= s.at:
		s.stats.Duplicate++
		return KVDrop
	}
	return KVRestart
}

// clockSlack is by how many seconds an engine's clock may be set back without being taken for another engine.
const clockSlack = 60

// Same reports whether a message that was asked for again, the last one applied, is still the one that was applied then. If not, the engine
// has started anew, and has come as far again.
func (s *KVStream) Same(seq uint64, at float64) bool {
	return !s.started || s.at == 0 || seq != s.next-1 || at == s.at
}

// Reset forgets everything: the engine has started anew, or messages are lost for good. lost says how many are, as far as it is known.
func (s *KVStream) Reset(restart bool, lost uint64) {
	if restart {
		s.stats.Restarts++
		s.size = 0 // it may have been started with smaller blocks
	}
	s.stats.Missing += lost
	s.started, s.next, s.at = false, 0, 0
	clear(s.blocks)
}

// Resume goes on after messages that are lost for good: the next one has this number.
func (s *KVStream) Resume(seq uint64) { s.started, s.next = true, seq }

// Apply takes in a message with its number, and appends what it means for the router to ops.
func (s *KVStream) Apply(seq uint64, b *KVBatch, ops *KVOps) {
	s.started, s.next, s.at = true, seq+1, max(b.At, 0)
	s.stats.Batches++
	s.stats.Skipped += uint64(b.Skipped)
	for i := range b.Events {
		switch e := &b.Events[i]; e.Kind {
		case KVStored:
			s.store(e, ops)
		case KVRemoved:
			s.remove(e, ops)
		case KVCleared:
			s.stats.Cleared++
			clear(s.blocks)
			ops.add(KVOp{Kind: KVCleared})
		}
	}
}

// store gives the blocks their names.
func (s *KVStream) store(e *KVEvent, ops *KVOps) {
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
	op := KVOp{Kind: KVStored, Session: e.Session, Tokens: e.BlockTokens}
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
func (s *KVStream) again(e *KVEvent) {
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

func (s *KVStream) remove(e *KVEvent, ops *KVOps) {
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
		ops.add(KVOp{Kind: KVRemoved, from: from, to: len(ops.names)})
	}
}

// name is the name of a block after its parent.
func (s *KVStream) name(parent, extra uint64, tokens []uint32) uint64 {
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
func kvRoot(e *KVEvent) uint64 {
	if e.Adapter == "" && e.Salt == "" {
		return 0
	}
	return xxh3.HashString(strconv.Itoa(len(e.Adapter)) + ":" + e.Adapter + e.Salt)
}

// KVNames names the whole blocks of a prompt whose tokens are known as KVStream names them, for a prompt without adapter and images.
// extra is what the engine's events have as KVEvent.Extra for its first block, salt as KVEvent.Salt: what a cache salt makes of them
// depends on the engine.
func KVNames(tokens []uint32, blockTokens int, salt string, extra uint64, to []uint64) []uint64 {
	if blockTokens <= 0 {
		return to
	}
	var s KVStream
	parent := kvRoot(&KVEvent{Salt: salt})
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		parent = s.name(parent, extra, tokens[:blockTokens])
		to, extra = append(to, parent), 0
	}
	return to
}

// KVOps is what messages mean for the router, in order.
type KVOps struct {
	ops   []KVOp
	names []uint64
}

// KVOp is one thing that happened to an endpoint's cache, in the router's own names of blocks.
type KVOp struct {
	Kind     KVKind
	Parent   uint64 // of a stored one: the name of the block before, 0 at the beginning of a prompt
	Session  string
	Tokens   int // a block
	from, to int // of KVOps.names
}

func (o *KVOps) add(op KVOp) { o.ops = append(o.ops, op) }

// Len is how many operations there are.
func (o *KVOps) Len() int { return len(o.ops) }

// Reset empties it and keeps its memory.
func (o *KVOps) Reset() { o.ops, o.names = o.ops[:0], o.names[:0] }

// of is the names of an operation's blocks.
func (o *KVOps) of(op *KVOp) []uint64 { return o.names[op.from:op.to] }

// At is the time of the last message applied, by the engine's clock.
func (s *KVStream) At() float64 { return s.at }

// Next is the number of the message that is expected next.
func (s *KVStream) Next() uint64 { return s.next }

// Lose counts messages that are lost for good.
func (s *KVStream) Lose(messages uint64) { s.stats.Missing += messages }

// Add adds the counts of another stream.
func (c *KVCounts) Add(o KVCounts) {
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
