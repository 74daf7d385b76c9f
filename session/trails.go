package session

// Trails recognises conversations by what they say. For each prompt it remembers a hash of all of it (its end) and whose it
// was; a later prompt that continues from there belongs to the same conversation. It holds hashes and ids, never text, and is
// bounded: the ends least recently used are forgotten.
type Trails struct {
	ends  *lru[end]
	tails *lru[[2]uint64]
}

// end is one prompt's end.
type end struct {
	id       string
	extended bool // a later prompt went on from here
	repeated bool // the same prompt came again before that: two conversations may have begun alike
}

// TrailBlock is the length in bytes of the blocks by which the ends of plain text are found.
const TrailBlock = 128

// Trail is what a prompt's content says about the conversation it belongs to.
type Trail struct {
	Scope uint64 // tenant and model; mixed into every hash

	// Whole identifies all messages of a chat but those of the system; 0 for a chat that says too little to identify
	// anybody, and for plain text.
	Whole uint64
	// Strict is Whole together with the system prompt: of two conversations that begin alike under different system
	// prompts it tells which is which.
	Strict uint64
	// Marks are like Whole for the chat cut after each earlier message, the latest first; StrictMarks like Strict.
	Marks, StrictMarks []uint64

	// Text identifies all of the prompt as it is rendered, to its last byte. Blocks and HashAt find the ends of earlier
	// prompts in it: Blocks[i] identifies the first (i+1)×TrailBlock bytes, and HashAt is like Text for the first n.
	Text   uint64
	Blocks []uint64
	HashAt func(n int) uint64
	Bytes  int
	Least  int // bytes below which an end identifies nobody
}

func (p *Trail) says() bool { return p.Whole != 0 || p.Bytes >= p.Least && p.HashAt != nil }

// key scopes a hash. The salts keep hashes of different meaning apart.
func (p *Trail) key(h, salt uint64) uint64 {
	h = (h ^ p.Scope ^ salt) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

const (
	looseSalt  = 0x5bd1e9955bd1e995
	strictSalt = 0xc2b2ae3d27d4eb4f
	textSalt   = 0x165667b19e3779f9
	tailSalt   = 0x27d4eb2f165667c5
)

// NewTrails makes an empty memory of at most so many ends.
func NewTrails(most int) *Trails {
	return &Trails{ends: newLRU[end](3 * most), tails: newLRU[[2]uint64](most)}
}

// Len is the number of ends remembered; a chat has three.
func (t *Trails) Len() int { return t.ends.len() }

// Follow finds the conversation that a prompt belongs to, or gives it the fresh id, and remembers where the prompt ends. known
// reports whether it belongs to a conversation of before. A prompt that repeats an earlier one word for word is a retry of that
// turn, unless somebody has gone on from it since: then it is a new conversation that begins alike.
func (t *Trails) Follow(p *Trail, fresh string) (id string, known bool) {
	if !p.says() {
		return fresh, false
	}
	same := p.key(p.Strict, strictSalt)
	if p.Whole == 0 {
		same = p.key(p.Text, textSalt)
	}
	if e := t.ends.get(same); e != nil {
		if !e.extended {
			e.repeated = true
			return e.id, true
		}
		t.remember(p, fresh)
		return fresh, false
	}
	id, known = fresh, false
	if e := t.earlier(p); e != nil && !(e.extended && e.repeated) {
		id, known = e.id, true
		e.extended = true
	}
	t.remember(p, id)
	return id, known
}

// earlier finds the longest earlier prompt that this one goes on from.
func (t *Trails) earlier(p *Trail) *end {
	for i := range p.Marks {
		loose := p.key(p.Marks[i], looseSalt)
		if e := t.ends.get(p.key(p.StrictMarks[i], strictSalt)); e != nil {
			t.extend(loose)
			return e
		}
		// Under another system prompt: agents write the date or the working directory into theirs.
		if e := t.ends.get(loose); e != nil {
			return e
		}
	}
	return t.earlierText(p)
}

// extend notes on the loose twin of an end that somebody went on from it.
func (t *Trails) extend(key uint64) {
	if e := t.ends.get(key); e != nil {
		e.extended = true
	}
}

// earlierText finds it in plain text. The mask of each block says at which of its bytes prompts ended.
func (t *Trails) earlierText(p *Trail) *end {
	if p.HashAt == nil {
		return nil
	}
	for i := len(p.Blocks) - 1; i >= max(-1, len(p.Blocks)-maxTrailBlocks); i-- {
		key := uint64(0)
		if i >= 0 {
			key = p.Blocks[i]
		}
		mask := t.tails.get(p.key(key, tailSalt))
		if mask == nil {
			continue
		}
		for off := TrailBlock - 1; off >= 0; off-- {
			n := (i+1)*TrailBlock + off
			if mask[off/64]>>(off%64)&1 == 0 || n >= p.Bytes || n < p.Least {
				continue
			}
			if e := t.ends.get(p.key(p.HashAt(n), textSalt)); e != nil {
				return e
			}
		}
	}
	return nil
}

// maxTrailBlocks bounds the search for the end of an earlier prompt: one turn rarely adds more than 512 kB.
const maxTrailBlocks = 4096

func (t *Trails) remember(p *Trail, id string) {
	if p.Whole != 0 {
		t.ends.put(p.key(p.Whole, looseSalt), end{id: id})
		t.ends.put(p.key(p.Strict, strictSalt), end{id: id})
	}
	if p.HashAt == nil || p.Bytes < p.Least {
		return
	}
	t.ends.put(p.key(p.Text, textSalt), end{id: id})
	block, off := uint64(0), p.Bytes%TrailBlock
	if full := p.Bytes / TrailBlock; full > 0 {
		block = p.Blocks[full-1]
	}
	key := p.key(block, tailSalt)
	var mask [2]uint64
	if m := t.tails.get(key); m != nil {
		mask = *m
	}
	mask[off/64] |= 1 << (off % 64)
	t.tails.put(key, mask)
}
