package session

// Trails recognises conversations by what they say. For each prompt it remembers a hash of all of it (its end) and whose it
// was; a later prompt that continues from there belongs to the same conversation. It holds hashes and ids, never text, and is
// bounded: the ends least recently used are forgotten.
type Trails struct {
	ends  *lru[end]
	tails *lru[[2]uint64]
}

// end is one prompt's end, under one of its hashes.
type end struct {
	id   string
	main uint64 // key of the hash that tells most of the prompt: there the flags of the prompt are kept

	answer   bool // it is no end, but that of the answer that a conversation went on with
	extended bool // a later prompt went on from here
	repeated bool // the same prompt came again before that: two conversations may have begun alike
	shared   bool // prompts of several conversations end like this, which only differ in what the hash leaves out
}

// TrailBlock is the length in bytes of the blocks by which the ends of plain text are found.
const TrailBlock = 128

// Trail is what a prompt's content says about the conversation it belongs to.
type Trail struct {
	Scope   uint64 // tenant and model; mixed into every hash
	Space   uint64 // what separates caches within them (adapter, cache salt); mixed into every hash
	Speaker uint64 // user, if the client names one: tells, like Strict, of conversations that begin alike which is which

	// Whole identifies all messages of a chat but those of the system; 0 for a chat that says too little to identify
	// anybody, and for plain text.
	Whole uint64
	// Strict is Whole together with the system prompt and the tools: of two conversations that begin alike under different
	// ones it tells which is which.
	Strict uint64
	// Marks are like Whole for the chat cut after each earlier message, the latest first; StrictMarks like Strict.
	Marks, StrictMarks []uint64

	// Text identifies all of the prompt as it is rendered, to its last byte. Blocks and HashAt find the ends of earlier
	// prompts in it: Blocks[i] identifies the first (i+1)×TrailBlock bytes, and HashAt is like Text for the first n.
	Text   uint64
	Blocks []uint64
	HashAt func(n int) uint64
	Bytes  int
	From   int // bytes before which no earlier prompt ends but at a mark: where the last message of a chat begins
	Least  int // bytes below which an end identifies nobody
}

func (p *Trail) says() bool { return p.Whole != 0 || p.Bytes >= p.Least && p.HashAt != nil }

// key scopes a hash. The salts keep hashes of different meaning apart.
func (p *Trail) key(h, salt uint64) uint64 {
	h = (h ^ p.Scope ^ p.Space*0xff51afd7ed558ccd ^ salt) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

func (p *Trail) strict(h uint64) uint64 { return p.key(h^p.speaker(), strictSalt) }

// text is the key of a hash of all text, without and with the user.
func (p *Trail) text(h uint64) (loose, strict uint64) {
	return p.key(h, textSalt), p.key(h^p.speaker(), textSalt)
}

func (p *Trail) speaker() uint64 { return p.Speaker * 0xc4ceb9fe1a85ec53 }

// main is the key of the hash that tells most of the prompt.
func (p *Trail) main() uint64 {
	if p.Whole == 0 {
		_, strict := p.text(p.Text)
		return strict
	}
	return p.strict(p.Strict)
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

// Len is the number of ends remembered; a turn of a chat has three or four.
func (t *Trails) Len() int { return t.ends.len() }

// Found is the conversation that a prompt belongs to. It is valid until the next Note.
type Found struct {
	ID      string
	Known   bool // it belongs to a conversation of before
	Repeats bool // it repeats that conversation's latest prompt word for word: a retry of that turn, or one of many that begin alike

	how  how
	turn int32 // end of the turn that the prompt repeats or goes on from, none for none
	mark int   // which of the marks that end is, -1 for none
}

// how says in what way a conversation was found.
type how uint8

const (
	saysNothing how = iota
	repeats         // the prompt is the latest of the conversation, word for word
	waitedFor       // a conversation that repeats another one turn after turn waits for it
	goesOn          // it goes on from an earlier prompt, or from none
)

// Find finds the conversation that a prompt belongs to, or gives it the fresh id. It changes nothing. A prompt that repeats an earlier
// one word for word is a retry of that turn, unless somebody has gone on from it since: then it is a new conversation that begins
// alike. One that repeats turn after turn stays one.
func (t *Trails) Find(p *Trail, fresh string) Found {
	if !p.says() {
		return Found{ID: fresh}
	}
	main := p.main()
	if i := t.ends.find(main); i != none && t.ends.at(i).value.main == main {
		e := &t.ends.at(i).value
		if turn := t.waiting(p, e.id); turn != none {
			return Found{ID: t.ends.at(turn).value.id, Known: true, how: waitedFor, turn: turn}
		}
		if !e.extended {
			return Found{ID: e.id, Known: true, Repeats: true, how: repeats, turn: i}
		}
		return Found{ID: fresh, how: goesOn, turn: none}
	}
	i, mark := t.earlier(p)
	f := Found{ID: fresh, how: goesOn, turn: i, mark: mark}
	if i == none {
		return f
	}
	e := &t.ends.at(i).value
	if m := t.ends.find(e.main); m != none && t.ends.at(m).value.id == e.id {
		f.turn = m
	}
	if turn := &t.ends.at(f.turn).value; !turn.extended || !turn.repeated {
		f.ID, f.Known = turn.id, true
	}
	return f
}

// Note remembers where a prompt ends, and that its conversation has gone on. f is what Find found, before anything else was noted.
func (t *Trails) Note(p *Trail, f *Found) {
	if f.how == saysNothing {
		return
	}
	if f.turn != none {
		turn := t.ends.touch(f.turn)
		if f.how == repeats {
			turn.repeated = true
			if p.Whole != 0 {
				t.ends.get(p.key(p.Whole, looseSalt)) // it must not be forgotten before the strict one
			}
			return
		}
		turn.extended = true
		repeated := turn.repeated
		if f.how == goesOn && f.mark > 0 { // should another conversation begin alike, its answer tells which is which
			key := p.key(p.Marks[f.mark-1], looseSalt)
			t.twin(key, end{id: f.ID, main: key, answer: true})
			if strict := p.strict(p.StrictMarks[f.mark-1]); repeated {
				t.ends.put(strict, end{id: f.ID, main: strict})
			}
		}
	}
	t.remember(p, f.ID)
}

// waiting finds the turn that a prompt goes on from which repeats one of another conversation, none for none. All of that conversation may
// be said once more, as when a benchmark is run twice: then a new conversation repeated the turn before this one, and waits for its next
// turn.
func (t *Trails) waiting(p *Trail, was string) int32 {
	i, _ := t.earlier(p)
	if i == none {
		return none
	}
	turn := t.ends.find(t.ends.at(i).value.main)
	if turn == none {
		return none
	}
	if e := &t.ends.at(turn).value; e.id != t.ends.at(i).value.id || e.id == was || e.extended {
		return none
	}
	return turn
}

// Says reports whether a prompt says enough to identify a conversation.
func (p *Trail) Says() bool { return p != nil && p.says() }

// earlier finds the end of the longest earlier prompt that this one goes on from, none for none, and which of the marks it is, -1 for
// none.
func (t *Trails) earlier(p *Trail) (at int32, mark int) {
	loose := true
	for i := range p.Marks {
		// What is remembered of a prompt's end under its strict hash is so under its loose one too, and nothing is of most marks.
		at := t.ends.find(p.key(p.Marks[i], looseSalt))
		if at == none {
			continue
		}
		if strict := t.ends.find(p.strict(p.StrictMarks[i])); strict != none {
			return strict, i
		}
		// Under another system prompt: agents write the date or the working directory into theirs. Not when several
		// conversations got this far alike.
		if !loose {
			continue
		}
		e := &t.ends.at(at).value
		if loose = !e.shared && (!e.answer || t.mayBeOf(p, e, i)); loose {
			return at, i
		}
	}
	return t.earlierText(p), -1
}

// mayBeOf reports whether an answer that was found loosely as mark i is of the conversation that it was given in: others may have been
// answered alike. It is not when the question before it, mark i+1, is that of another one under the same system prompt, or
// of another one that nobody has gone on from yet.
func (t *Trails) mayBeOf(p *Trail, answer *end, i int) bool {
	if i++; i == len(p.Marks) {
		return true
	}
	if at := t.ends.find(p.strict(p.StrictMarks[i])); at != none {
		return t.ends.at(at).value.id == answer.id
	}
	at := t.ends.find(p.key(p.Marks[i], looseSalt))
	if at == none {
		return true
	}
	e := &t.ends.at(at).value
	if !e.shared && e.id == answer.id {
		return true
	}
	turn := t.ends.find(e.main)
	return !e.shared && turn != none && t.ends.at(turn).value.extended
}

// earlierText finds it in plain text. The mask of each block says at which of its bytes prompts ended.
func (t *Trails) earlierText(p *Trail) int32 {
	if p.HashAt == nil {
		return none
	}
	for i := len(p.Blocks) - 1; i >= max(p.From/TrailBlock-1, len(p.Blocks)-maxTrailBlocks, -1); i-- {
		key := uint64(0)
		if i >= 0 {
			key = p.Blocks[i]
		}
		tail := t.tails.find(p.key(key, tailSalt))
		if tail == none {
			continue
		}
		mask := &t.tails.at(tail).value
		for off := TrailBlock - 1; off >= 0; off-- {
			n := (i+1)*TrailBlock + off
			if mask[off/64]>>(off%64)&1 == 0 || n >= p.Bytes || n < p.Least {
				continue
			}
			loose, strict := p.text(p.HashAt(n))
			for _, key := range [2]uint64{strict, loose} {
				if at := t.ends.find(key); at != none && !t.ends.at(at).value.shared {
					return at
				}
			}
		}
	}
	return none
}

// maxTrailBlocks bounds the search for the end of an earlier prompt: one turn rarely adds more than 512 kB.
const maxTrailBlocks = 4096

// end remembers the end of a chat.
func (t *Trails) end(p *Trail, whole, strict uint64, id string) {
	main := p.strict(strict)
	t.ends.put(main, end{id: id, main: main})
	t.twin(p.key(whole, looseSalt), end{id: id, main: main})
}

// twin remembers an end under a hash that tells less.
func (t *Trails) twin(key uint64, e end) {
	i := t.ends.find(key)
	if i == none {
		t.ends.enter(key, e)
		return
	}
	before := &t.ends.at(i).value
	if before.id == e.id {
		e.shared = before.shared
	} else {
		turn := t.ends.get(before.main) // of one that was gone on from, the later prompts have ends of their own
		e.shared = before.shared || before.answer || turn == nil || !turn.extended
	}
	*before = e
	t.ends.touch(i)
}

func (t *Trails) remember(p *Trail, id string) {
	main := p.main()
	if p.Whole != 0 {
		t.end(p, p.Whole, p.Strict, id)
	}
	if p.HashAt == nil || p.Bytes < p.Least {
		return
	}
	loose, strict := p.text(p.Text)
	t.ends.put(strict, end{id: id, main: main})
	if loose != strict {
		t.twin(loose, end{id: id, main: main})
	}
	block, off := uint64(0), p.Bytes%TrailBlock
	if full := p.Bytes / TrailBlock; full > 0 {
		block = p.Blocks[full-1]
	}
	key := p.key(block, tailSalt)
	mask := t.tails.get(key)
	if mask == nil {
		mask = t.tails.enter(key, [2]uint64{})
	}
	mask[off/64] |= 1 << (off % 64)
}
