package prompt

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// tape holds the tokens of a body's prompt, with decoded strings, so that members can be visited in any order after the
// one pass over the body. A Cursor has validated them.
type tape struct {
	tokens []token
	text   []byte
	open   int32 // innermost open container; -1 for none
	ids    bool  // the last token is a run of token ids that may continue
	parts  [numFields]part
}

// part is the position of a top-level member's value on the tape: the index of its first token plus 1; 0 is absent.
type part uint32

// tokenIDs is the kind of a run of numbers in an array, stored as four bytes each, little-endian.
const tokenIDs = jsonscan.Null + 1

// token is one token of a tape. Ends of containers are not on it.
type token struct {
	kind  jsonscan.Kind
	from  uint32 // Key, String, Number, tokenIDs: start of the content in tape.text
	to    uint32 // and its end
	after uint32 // index of the token after the whole value; while a container is open, the enclosing one
}

// begin starts the value of f and drops an earlier one.
func (t *tape) begin(f field) {
	t.open, t.ids, t.parts[f] = -1, false, part(len(t.tokens)+1)
}

func (t *tape) push(k jsonscan.Kind, from int) {
	n := uint32(len(t.tokens) + 1)
	t.tokens = append(t.tokens, token{kind: k, from: uint32(from), to: uint32(len(t.text)), after: n})
	t.ids = false
}

func (t *tape) enter(k jsonscan.Kind) {
	t.push(k, len(t.text))
	last := int32(len(t.tokens) - 1)
	t.tokens[last].after = uint32(t.open)
	t.open = last
}

func (t *tape) leave() {
	top := &t.tokens[t.open]
	t.open, top.after = int32(top.after), uint32(len(t.tokens))
	t.ids = false
}

// number adds a number as spelt.
func (t *tape) number(raw []byte) {
	from := len(t.text)
	t.text = append(t.text, raw...)
	t.push(jsonscan.Number, from)
}

// id adds a number that is a token id.
func (t *tape) id(raw []byte) {
	from := len(t.text)
	t.text = binary.LittleEndian.AppendUint32(t.text, uint32(wholePart(raw)))
	if t.ids {
		t.tokens[len(t.tokens)-1].to = uint32(len(t.text))
		return
	}
	t.push(tokenIDs, from)
	t.ids = true
}

// roomForIDs makes room for the ids in the left bytes of a body, if each takes that many there, and at most for four
// times what there is: of millions of ids append would make many copies, which take many times the body.
func (t *tape) roomForIDs(left, each int) {
	t.text = slices.Grow(t.text, max(4, min(4*len(t.text), 4*(left/max(each, 2)+1))))
}

func (t *tape) key(raw []byte, plain bool) {
	from := len(t.text)
	if plain && utf8.Valid(raw) {
		t.text = append(t.text, raw...)
	} else {
		t.text = jsonscan.AppendDecoded(t.text, raw)
	}
	t.push(jsonscan.Key, from)
}

// content is the decoded content of a token.
func (t *tape) content(i uint32) []byte {
	tok := &t.tokens[i]
	return t.text[tok.from:tok.to]
}

// record is text that also puts every token onto the chain's tape, the first of them read already. It measures the same
// amounts as text and part do.
func (s *scan) record(f field, kind jsonscan.Kind) (amount, bool) {
	var a amount
	s.chain.tape.begin(f)
	ok := s.recordValue(kind, &a, kind == jsonscan.Array && f <= fInputIDs, -1)
	s.cur.Out = nil
	return a, ok
}

// recordValue puts one value onto the tape. Numbers outside objects are token ids when ids is set. The value of a
// message with the given first token may be written in canonical form directly; -1 is no message.
func (s *scan) recordValue(kind jsonscan.Kind, a *amount, ids bool, message int) bool {
	c, t := &s.cur, &s.chain.tape
	from := c.At().Start
	objects, floor := 0, c.Depth() // floor: the depth within the value, if it is a container
	mute, whole := -1, -1          // depth of the object of a member that does not count, or that counts as spelt
	for k := kind; ; k = c.Next() {
		if len(t.tokens) > maxTokens {
			return false
		}
		switch k {
		case jsonscan.Bad, jsonscan.End:
			return false
		case jsonscan.String:
			if mute < 0 {
				a.text += c.TextLen()
			}
			t.push(jsonscan.String, c.OutFrom)
		case jsonscan.Number:
			raw := c.Token()
			if objects > 0 || !ids {
				t.number(raw)
			} else {
				a.ids++
				if cap(t.text)-len(t.text) < 4 {
					t.roomForIDs(len(c.Data())-c.Pos(), (c.Pos()-from)/a.ids)
				}
				t.id(raw)
			}
		case jsonscan.Object:
			objects++
			t.enter(k)
		case jsonscan.Array:
			t.enter(k)
		case jsonscan.ObjectEnd:
			objects--
			t.leave()
		case jsonscan.ArrayEnd:
			t.leave()
		case jsonscan.Key:
			raw, plain := c.Raw()
			t.key(raw, plain)
			if message >= 0 && len(t.tokens) == message+keyOfContent && c.Depth() == floor && string(raw) == "content" {
				if done, ok := s.straight(message, a); done || !ok {
					return ok
				}
				continue
			}
			if mute < 0 {
				mute, whole = s.counts(c.Depth())
			}
			continue
		default:
			t.push(k, len(t.text))
		}
		if mute >= 0 && c.Depth() == mute {
			switch { // the member's value is complete
			case whole >= 0 && k == jsonscan.String:
				a.text += c.TextLen()
			case whole >= 0:
				a.text += c.At().End - s.valueAt(whole)
			}
			mute, whole = -1, -1
		}
		if c.Depth() < floor || (kind != jsonscan.Object && kind != jsonscan.Array) {
			return true
		}
	}
}

// counts returns how the member with the last token as its key counts: mute is the depth of its object if its strings
// do not count one by one, else -1; whole is the end of its key if it counts as JSON, else -1.
func (s *scan) counts(depth int) (mute, whole int) {
	name := s.name()
	switch {
	case isMedia(name):
		return depth, -1
	case string(name) == "input" || string(name) == "arguments":
		return depth, s.cur.Pos()
	}
	return -1, -1
}

// valueAt is the start of the value after a key's colon.
func (s *scan) valueAt(colon int) int {
	d := s.cur.Data()
	for d[colon] <= ' ' {
		colon++
	}
	return colon
}
