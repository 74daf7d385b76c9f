package tokenizer

import (
	"strings"
	"sync"
)

// Bounds of the cache of words.
const (
	cachedWords = 1 << 15 // in each of two generations
	cachedBytes = 64      // of a word; longer ones seldom repeat
)

// cache maps words to tokens. When the young generation is full the old one is dropped; words used again in time stay.
type cache struct {
	mu         sync.RWMutex
	young, old map[string][]int32 // guarded by mu; the slices are immutable
}

// get returns the tokens of a word, or nil.
func (c *cache) get(word string) []int32 {
	c.mu.RLock()
	ids, ok := c.young[word]
	if ok {
		c.mu.RUnlock()
		return ids
	}
	ids, ok = c.old[word]
	c.mu.RUnlock()
	if ok {
		c.put(word, ids)
	}
	return ids
}

// put stores ids, which must not change afterwards.
func (c *cache) put(word string, ids []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) >= cachedWords {
		c.old, c.young = c.young, make(map[string][]int32)
	}
	c.young[strings.Clone(word)] = ids
}
