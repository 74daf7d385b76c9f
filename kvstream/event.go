package kvstream

// Kind says what an event of an engine's KV cache reports.
type Kind uint8

// The events. Engines call them BlockStored, BlockRemoved and AllBlocksCleared (vLLM, SGLang), stored and removed (TensorRT-LLM).
const (
	Stored  Kind = iota // blocks are in the cache
	Removed             // blocks are not any more
	Cleared             // the cache is empty
)

// Event is one event of an engine's KV cache, in whatever format it came. Hashes are the engine's own: whole numbers of 64
// bits, of which only equality means anything; longer ones are cut to 64 bits the same way each time.
type Event struct {
	Kind   Kind
	Hashes []uint64
	// Of a stored event: the hash of the block before the first one (none at the beginning of a prompt), the tokens of all blocks
	// one after another, and how many a block has.
	Parent      uint64
	HasParent   bool
	Tokens      []uint32
	BlockTokens int

	Adapter  string   // name of the LoRA adapter, or its number in decimal; "" for the base model
	Salt     string   // cache salt, where the engine names it apart from Extra
	Extra    []uint64 // a hash of what else each block depends on (images, salt, adapter), 0 for nothing; nil when none has any
	Medium   string   // "GPU", "CPU", ...; "" where the engine does not say
	Session  string   // id of the conversation, where the engine labels its blocks with it
	Windowed bool     // blocks of layers that need only the end of a prompt (sliding window, Mamba): no prefix is held with them alone
}

// Batch is one message of an event stream: what happened in a step of the engine. Its slices are used again for the next one.
type Batch struct {
	At      float64 // seconds since 1970 by the engine's clock; 0 where it does not say
	Rank    int     // data-parallel rank, -1 where it does not say
	Events  []Event
	Skipped int // events that were malformed or of an unknown kind
}

// Reset empties a batch and keeps its memory.
func (b *Batch) Reset() {
	b.At, b.Rank, b.Skipped = 0, -1, 0
	b.Events = b.Events[:0]
}

// Next appends an empty event, with the memory of one used before, and returns it.
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

// Undo takes back the latest event of Next.
func (b *Batch) Undo() { b.Events = b.Events[:len(b.Events)-1] }
