package session

// Trails recognises conversations by their content. For each prompt it stores a hash of the whole prompt (its end) and
// its conversation; a later prompt that continues from there belongs to the same conversation. It stores hashes and
// ids, never text, and is bounded: the least recently used ends are forgotten.
type Trails struct {
	ends  *lru[end]
	tails *lru[[2]uint64]
}

// end is the end of one prompt, under one of its hashes.
type end struct {
	id   string
	main uint64 // key of the prompt's most specific hash, whose end has the flags

	answer   bool // not a prompt's end: the answer with which a conversation continued
	extended bool // a later prompt continued from here
	repeated bool // the same prompt came again before extended was set: two conversations may begin with it
	shared   bool // prompts of several conversations end here; they differ only in what the hash leaves out
}

// TrailBlock is the length in bytes of the blocks by which ends of plain text are found.
const TrailBlock = 128

// Trail is what a prompt's content says about its conversation.
type Trail struct {
	Scope   uint64 // tenant and model; mixed into every hash
	Space   uint64 // what separates caches within Scope (adapter, cache salt); mixed into every hash
	Speaker uint64 // the user, if named: like Strict it tells apart conversations with equal beginnings

	// Whole is the hash of a chat's messages without system messages; 0 for plain text.
	Whole uint64
	// Strict is Whole with the system prompt and the tools: it tells apart conversations that begin alike under
	// different system prompts.
	Strict uint64
	// Marks are like Whole, and StrictMarks like Strict, for the chat cut after each earlier message, latest first.
	Marks, StrictMarks []uint64
	// Openings is how many of the earliest messages, the last of Marks, say too little to identify a conversation by
	// themselves: many begin with them. Opening reports that all of the chat is so short.
	Openings int
	Opening  bool

	// Text is the hash of the whole rendered prompt. Blocks and HashAt find the ends of earlier prompts in it:
	// Blocks[i] is the hash of the first (i+1)×TrailBlock bytes, HashAt(n) that of the first n.
	Text   uint64
	Blocks []uint64
	HashAt func(n int) uint64
	Bytes  int
	From   int // start of a chat's last message: before it, earlier prompts end only at marks
	Least  int // shortest end in bytes that identifies a conversation
}

func (p *Trail) says() bool {
	return p.Whole != 0 && !p.Opening || p.Bytes >= p.Least && p.HashAt != nil
}

// key mixes scope and space into a hash. The salts separate hashes of different meaning.
func (p *Trail) key(h, salt uint64) uint64 {
	h = (h ^ p.Scope ^ p.Space*0xff51afd7ed558ccd ^ salt) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

func (p *Trail) strict(h uint64) uint64 { return p.key(h^p.speaker(), strictSalt) }

// text returns the keys of a hash of rendered text, without and with the user.
func (p *Trail) text(h uint64) (loose, strict uint64) {
	return p.key(h, textSalt), p.key(h^p.speaker(), textSalt)
}

func (p *Trail) speaker() uint64 { return p.Speaker * 0xc4ceb9fe1a85ec53 }

// main is the key of the prompt's most specific hash.
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

// NewTrails returns an empty memory of at most this many ends.
func NewTrails(most int) *Trails {
	return &Trails{ends: newLRU[end](3 * most), tails: newLRU[[2]uint64](most)}
}

// SetMost replaces the bound. A larger memory keeps its size.
func (t *Trails) SetMost(most int) {
	t.ends.setMost(3 * most)
	t.tails.setMost(most)
}

// Found is the conversation of a prompt. It is valid until the next Note.
type Found struct {
	ID      string
	Known   bool // the conversation was known before
	Repeats bool // the prompt equals the conversation's latest: a retry, or one of many with the same beginning

	how  how
	turn int32 // end of the turn that the prompt repeats or continues; none if there is none
	mark int   // index of the mark with that end; -1 if there is none
}

// how is the way in which a conversation was found.
type how uint8

const (
	saysNothing how = iota
	repeats         // the prompt equals the conversation's latest
	waitedFor       // it continues a conversation that repeats another one turn by turn
	goesOn          // it continues an earlier prompt, or none
	opens           // the same, and it is an opening
)

// Find returns the conversation of a prompt, or the fresh id. It changes nothing. A prompt equal to an earlier one is a
// retry of that turn, unless the turn has been continued since: then it begins a new conversation. A conversation that
// repeats another one turn by turn keeps its id. An opening that came before begins a new conversation.
func (t *Trails) Find(p *Trail, fresh string) Found {
	if !p.says() && !p.Opening {
		return Found{ID: fresh}
	}
	main := p.main()
	if p.Opening {
		f := Found{ID: fresh, turn: none, mark: -1}
		if t.ends.find(main) == none {
			f = t.goOn(p, fresh)
		}
		f.how = opens
		return f
	}
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
	return t.goOn(p, fresh)
}

// goOn finds the conversation of a prompt that is no repeat.
func (t *Trails) goOn(p *Trail, fresh string) Found {
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

// Noted is what Note stores of a prompt: hashes and the id of its conversation. Another router that takes it in by
// Apply then recognises the conversation too.
type Noted struct {
	ID                     string
	Main                   uint64 // its most specific hash; 0 when the prompt is too short to identify a conversation
	Turn                   uint64 // of the turn that it repeats or continues; 0 for none
	Repeats                bool   // it repeats that turn
	Opening                bool   // too short to identify the conversation by itself
	Opened                 bool   // so was the turn that it continues
	Chat                   uint64 // end as a chat, less specific than Main; 0 for plain text
	Answer, StrictAnswer   uint64 // of the answer with which it continued; 0 for none
	Text, StrictText, Tail uint64 // end as plain text, and its last whole block; 0 where unknown
	Off                    uint8  // bytes after that block
}

// Noted returns what Note stores. f must be the result of Find, with nothing noted since.
func (t *Trails) Noted(p *Trail, f *Found) (n Noted) {
	if f.how == saysNothing {
		return n
	}
	n = Noted{ID: f.ID, Main: p.main(), Repeats: f.how == repeats, Opening: f.how == opens}
	if p.Whole != 0 {
		n.Chat = p.key(p.Whole, looseSalt)
	}
	if f.turn != none {
		n.Turn = t.ends.at(f.turn).key
	}
	if f.turn != none && (f.how == goesOn || f.how == opens) && f.mark > 0 {
		n.Answer, n.StrictAnswer = p.key(p.Marks[f.mark-1], looseSalt), p.strict(p.StrictMarks[f.mark-1])
		n.Opened = f.mark >= len(p.Marks)-p.Openings
	}
	if n.Opening || p.HashAt == nil || p.Bytes < p.Least {
		return n
	}
	n.Text, n.StrictText = p.text(p.Text)
	block := uint64(0)
	if full := p.Bytes / TrailBlock; full > 0 {
		block = p.Blocks[full-1]
	}
	n.Tail, n.Off = p.key(block, tailSalt), uint8(p.Bytes%TrailBlock)
	return n
}

// Note stores the end of a prompt and the continuation of its conversation. f must be the result of Find, with nothing
// noted since.
func (t *Trails) Note(p *Trail, f *Found) {
	n := t.Noted(p, f)
	t.Apply(&n)
}

// Apply stores what this or another router noted.
func (t *Trails) Apply(n *Noted) {
	if n.Main == 0 {
		return
	}
	at := none
	if n.Turn != 0 {
		at = t.ends.find(n.Turn)
	}
	if at != none {
		turn := t.ends.touch(at)
		if n.Repeats {
			turn.repeated = true
			if n.Chat != 0 {
				t.ends.get(n.Chat) // keeps it from being forgotten before the strict one
			}
			return
		}
		turn.extended = true
		repeated := turn.repeated
		if n.Answer != 0 { // if another conversation begins alike, its answer tells them apart
			t.twin(n.Answer, end{id: n.ID, main: n.Answer, answer: true})
			if repeated || n.Opened {
				t.ends.put(n.StrictAnswer, end{id: n.ID, main: n.StrictAnswer, answer: true})
			}
		}
	}
	t.remember(n)
}

// waiting returns the end of the turn that p continues in a conversation other than was, or none. A whole conversation
// may be repeated, as when a benchmark runs twice: a new conversation has then repeated the turn before this one and
// expects this turn next.
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

// Says reports whether a prompt is long enough to identify a conversation.
func (p *Trail) Says() bool { return p != nil && p.says() }

// Opens reports whether a prompt is too short to identify a conversation, while its next turn may do so.
func (p *Trail) Opens() bool { return p != nil && p.Opening }

// earlier returns the end of the longest earlier prompt that p continues, or none, and the index of its mark, or -1.
func (t *Trails) earlier(p *Trail) (at int32, mark int) {
	loose := true
	for i := range p.Marks {
		// An end stored under its strict hash is stored under its loose one too, and most marks have no end.
		at := t.ends.find(p.key(p.Marks[i], looseSalt))
		if at == none {
			continue
		}
		strict, openings := t.ends.find(p.strict(p.StrictMarks[i])), len(p.Marks)-p.Openings
		if i >= openings || i+1 == openings && strict != none && t.ends.at(strict).value.answer {
			if at = t.opened(p, i, loose); at == none {
				return none, -1
			}
			return at, i
		}
		if strict != none {
			return strict, i
		}
		// Under another system prompt: agents put the date or the working directory there. Not if several conversations
		// have this beginning.
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

// opened returns the end of the opening at mark i from which p continues, or none. Of several conversations that begin
// alike and have not gone on, none can be told from the others; nor can, of two with the same answer, the next turn of
// the one from another next turn of the other.
func (t *Trails) opened(p *Trail, i int, loose bool) int32 {
	strict := t.ends.find(p.strict(p.StrictMarks[i]))
	at := strict
	if at == none && loose && p.Speaker == 0 {
		at = t.ends.find(p.key(p.Marks[i], looseSalt))
	}
	if at == none || t.ends.at(at).value.shared && at != strict {
		return none
	}
	e := &t.ends.at(at).value
	if e.answer {
		if i++; i < len(p.Marks) { // the question
			if q := t.ends.find(p.strict(p.StrictMarks[i])); q == none || t.ends.at(q).value.repeated ||
				t.ends.at(q).value.id != e.id {
				return none
			}
		}
		return at
	}
	main := t.ends.find(e.main)
	if main == none {
		return none
	}
	if turn := &t.ends.at(main).value; turn.id != e.id || turn.extended || turn.repeated {
		return none
	}
	if i == 0 {
		return at
	}
	answer := p.key(p.Marks[i-1], looseSalt)
	if at == strict {
		answer = p.strict(p.StrictMarks[i-1])
	}
	if t.ends.find(answer) != none {
		return none
	}
	return at
}

// mayBeOf reports whether an answer found loosely as mark i can belong to its conversation; others may have got the
// same answer. It cannot if the question before it, mark i+1, belongs to another conversation under the same system
// prompt, or to another one that was not continued yet.
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

// earlierText is earlier for plain text. The mask of each block says at which of its bytes prompts ended.
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

// maxTrailBlocks bounds the search for the end of an earlier prompt: a turn rarely adds more than 512 kB.
const maxTrailBlocks = 4096

// twin stores an end under a less specific hash.
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
		turn := t.ends.get(before.main) // of an extended turn, the later prompts have their own ends
		e.shared = before.shared || before.answer || turn == nil || !turn.extended
	}
	*before = e
	t.ends.touch(i)
}

// contest notes a prompt with which an earlier conversation began too, if nothing can tell later which of them goes on:
// of openings, one that has not gone on yet; of longer prompts, those that came again before one of them went on. That
// lasts until the end is forgotten. It returns false for any other prompt.
func (t *Trails) contest(n *Noted) bool {
	i := t.ends.find(n.Main)
	if i == none {
		return false
	}
	if e := &t.ends.at(i).value; e.id == n.ID || !e.repeated && (e.extended || !n.Opening) {
		return false
	}
	t.ends.touch(i).repeated = true
	if n.Chat != 0 {
		t.ends.get(n.Chat) // keeps it from being forgotten before the strict one
	}
	return true
}

func (t *Trails) remember(n *Noted) {
	if t.contest(n) {
		return
	}
	if n.Chat != 0 {
		t.ends.put(n.Main, end{id: n.ID, main: n.Main})
		t.twin(n.Chat, end{id: n.ID, main: n.Main})
	}
	if n.StrictText == 0 {
		return
	}
	t.ends.put(n.StrictText, end{id: n.ID, main: n.Main})
	if n.Text != n.StrictText {
		t.twin(n.Text, end{id: n.ID, main: n.Main})
	}
	mask := t.tails.get(n.Tail)
	if mask == nil {
		mask = t.tails.enter(n.Tail, [2]uint64{})
	}
	mask[n.Off/64] |= 1 << (n.Off % 64)
}
