package kvstream

// Kind is the kind of a KV cache event.
type Kind uint8

// The kinds of event. Engines call them BlockStored, BlockRemoved and AllBlocksCleared (vLLM, SGLang), stored and
// removed (TensorRT-LLM).
const (
	Stored  Kind = iota // blocks entered the cache
	Removed             // blocks left the cache
	Cleared             // the cache was emptied
)

// Event is one KV cache event, independent of the engine's format. Hashes are the engine's own 64-bit numbers and only
// good for comparison; longer ones are truncated consistently.
type Event struct {
	Kind   Kind
	Hashes []uint64
	// Of a stored event: the hash of the block before the first one (none at the beginning of a prompt), the tokens of
	// all blocks in order, and the tokens per block.
	Parent      uint64
	HasParent   bool
	Tokens      []uint32
	BlockTokens int

	Adapter string // name of the LoRA adapter, or its number in decimal; "" for the base model
	Salt    string // cache salt, where the engine reports it apart from Extra
	// per block a hash of what else it depends on (images, salt, adapter), 0 for nothing; nil when all are 0
	Extra   []uint64
	Medium  string // "GPU", "CPU", ...; "" if not reported
	Session string // conversation id, where the engine labels blocks with it
	// blocks of layers that need only the end of a prompt (sliding window, Mamba), which cannot restore a prefix alone
	Windowed bool
}

// Batch is one message of an event stream: the events of one engine step. Its slices are reused for the next message.
type Batch struct {
	At      float64 // seconds since 1970 by the engine's clock; 0 if not reported
	Rank    int     // data-parallel rank; -1 if not reported
	Events  []Event
	Skipped int // events that were malformed or of an unknown kind
}

// Reset empties a batch, and keeps its memory unless that is a lot.
func (b *Batch) Reset() {
	if b.memory() > mostKept {
		b.Events = nil
	}
	b.At, b.Rank, b.Skipped = 0, -1, 0
	b.Events = b.Events[:0]
}

// mostKept is how much memory a batch, and operations, keep for the next message, in bytes: many times what those of a
// busy engine take. Each event keeps what the longest at its place took, so that all of it would be kept of an engine
// whose one long event comes at another place in each message.
const mostKept = 4 << 20

// eventBytes and opBytes are about what an event and an operation take beside their lists.
const eventBytes, opBytes = 256, 128

// memory is what b keeps, in bytes.
func (b *Batch) memory() int {
	all := b.Events[:cap(b.Events)]
	n := eventBytes * len(all)
	for i := 0; i < len(all) && n <= mostKept; i++ {
		e := &all[i]
		n += 8*cap(e.Hashes) + 4*cap(e.Tokens) + 8*cap(e.Extra) + len(e.Adapter) + len(e.Salt) + len(e.Session)
	}
	return n
}

// Next appends an empty event that reuses earlier memory, and returns it.
func (b *Batch) Next() *Event {
	if len(b.Events) < cap(b.Events) {
		b.Events = b.Events[:len(b.Events)+1]
	} else {
		b.Events = append(b.Events, Event{})
	}
	e := &b.Events[len(b.Events)-1]
	*e = Event{Hashes: e.Hashes[:0], Tokens: e.Tokens[:0], Extra: e.Extra[:0]}
	return e
}

// Undo removes the event that Next appended last.
func (b *Batch) Undo() { b.Events = b.Events[:len(b.Events)-1] }
