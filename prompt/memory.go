package prompt

// Locker is the interface of sync.Mutex.
type Locker interface {
	Lock()
	Unlock()
}

// Memory lets bodies with the same beginning as earlier ones be read from where they differ: for a conversation's next
// turn, almost the whole body is known. For positions in earlier bodies it stores a hash of the raw bytes up to there
// and the state to continue from, with at most the last 135 bytes of text. It also recognises large tools at any
// position. Its size is bounded by an LRU.
//
// A match by hash is trusted: that it is JSON, its end, and its chain. Nothing that is sent to an engine or decided
// about a client is remembered: model, ids, stream and positions of members are read from each body. The 128-bit hashes
// depend on the seed, which must be random and secret. A client that knew it could make two bodies collide, which would
// only misread its own request.
type Memory struct {
	seed  uint64
	lock  Locker
	least int // smallest body in bytes that is remembered

	index  map[uint64]uint32 // node by key
	nodes  []*nodePage
	cells  []*cellPage
	values []valueSet

	maxNodes, maxCells   uint32 // limits
	nodeCount, cellCount uint32 // allocated so far, in use or free
	freeNode, freeCell   uint32
	newest, oldest       uint32
}

// DefaultMemory is a default size in bytes: room for 400 conversations of 500 kB.
const DefaultMemory = 24 << 20

// leastMemory is the smallest size of a Memory.
const leastMemory = 1 << 20

// NewMemory returns an empty memory of at most this many bytes, at least 1 MB. It allocates as it fills. lock is held
// for a few microseconds at a time; nil is for a single caller.
func NewMemory(bytes int, seed uint64, lock Locker) *Memory {
	if lock == nil {
		lock = noLock{}
	}
	bytes = max(bytes, leastMemory)
	m := &Memory{seed: seed, lock: lock, least: leastKnown, index: map[uint64]uint32{}}
	m.maxNodes = uint32(min(bytes/5/nodeBytes, 1<<24))
	m.maxCells = uint32(min(bytes/5*4/cellBytes, 1<<26))
	m.values = make([]valueSet, valueSets)
	return m
}

type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// leastKnown is the body size in bytes below which remembering costs more than reading. For 8 kB of which 90 % are
// known, both take a twentieth of the router's CPU time, and conversations that short would fill the memory.
const leastKnown = 16 << 10

// chunkKey identifies the raw bytes of a body up to the end of a chunk.
type chunkKey struct {
	key, check uint64
	end        int
}

func (m *Memory) find(k *chunkKey) uint32 {
	n := m.index[k.key]
	if n == 0 || m.node(n).check != k.check {
		return 0
	}
	return n
}
