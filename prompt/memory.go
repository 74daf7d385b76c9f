package prompt

// Locker is what sync.Mutex does: one caller at a time between Lock and Unlock.
type Locker interface {
	Lock()
	Unlock()
}

// Memory lets bodies that begin like earlier ones be read from where they differ: for the same conversation one turn
// later nearly all of the body. For places in the bodies of before it holds a hash of the raw bytes up to there and what
// of their chain is needed to go on, of the text itself never more than the last 135 bytes before such a place. It also
// knows large tools again wherever they stand. Its size is bounded; what was least recently used is forgotten.
//
// What is recognised by a hash is believed to be what it was: that it is JSON, where it ends, and what its chain is.
// Nothing that is said to an engine or decided about a client is remembered: model, ids, stream and the places of members
// are read from each body. The hashes have 128 bits and begin with the seed, which must be chosen by chance and kept
// secret. Whoever knew it could make two bodies meet; his own request would then be misread, and nobody else's.
type Memory struct {
	seed  uint64
	lock  Locker
	least int // size in bytes of a body from which on it is remembered

	index  map[uint64]uint32 // node by key
	nodes  []*nodePage
	cells  []*cellPage
	values []valueSet

	maxNodes, maxCells   uint32 // bounds
	nodeCount, cellCount uint32 // made so far, in use or free
	freeNode, freeCell   uint32
	newest, oldest       uint32
}

// DefaultMemory is a sensible size of a Memory in bytes: room for 400 conversations of 500 kB.
const DefaultMemory = 24 << 20

// leastMemory is the smallest size of a Memory.
const leastMemory = 1 << 20

// NewMemory makes an empty memory of at most so many bytes, at least 1 MB. It takes its room as it fills. lock is held
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

// leastKnown is the size in bytes of a body below which remembering costs more than reading. For 8 kB of which 90 % are known it costs the
// router a twentieth of its CPU time and saves as much, and conversations that short would fill the memory.
const leastKnown = 16 << 10

// chunkKey identifies the raw bytes of a body up to the end of one of its chunks.
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
