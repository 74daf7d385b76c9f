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

// Reset empties a batch and keeps its memory.
func (b *Batch) Reset() {
	b.At, b.Rank, b.Skipped = 0, -1, 0
	b.Events = b.Events[:0]
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
