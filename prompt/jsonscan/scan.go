// Package jsonscan reads JSON token by token.
//
// It owns the cursor and the decoding of strings, 8 to 64 bytes at a time depending on the processor. It promises to
// accept exactly what encoding/json accepts, to allocate nothing, and positions as offsets into the document; values
// may be decoded to a buffer on the way. It never builds a tree, and knows no member names.
package jsonscan

import (
	"errors"
	"strconv"
)

// MaxDepth is the limit on nesting, that of encoding/json (decode.go, maxNestingDepth, Go 1.26).
const MaxDepth = 10000

// Kind is the kind of one JSON token.
type Kind uint8

// The kinds of token. The zero Kind is an error, or absence.
const (
	Bad       Kind = iota // not JSON; Cursor.Err has the reason
	End                   // the end of the document
	Object                // {
	ObjectEnd             // }
	Array                 // [
	ArrayEnd              // ]
	Key                   // a member's name and the colon after it
	String
	Number
	True
	False
	Null
)

var kindNames = [...]string{
	Bad: "nothing", End: "nothing", Object: "an object", ObjectEnd: "}", Array: "an array", ArrayEnd: "]",
	Key: "a key", String: "a string", Number: "a number", True: "a boolean", False: "a boolean", Null: "null",
}

// String names the kind for error messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// expectation is the Cursor's state: which token may come next.
type expectation uint8

const (
	expectValue      expectation = iota // a value must follow
	expectValueOrEnd                    // just after [
	expectKeyOrEnd                      // just after {
	expectKey                           // after a comma in an object
	expectMore                          // after a value in a container: a comma or the end of the container
	expectEnd                           // after the outermost value
	expectNothing                       // after an error
)

// Cursor reads one JSON document token by token, without recursion or allocation. It accepts exactly what
// encoding/json's Valid accepts. The zero Cursor is not usable; call Reset.
type Cursor struct {
	data   []byte
	pos    int // next byte to read
	start  int // first byte of the last token
	end    int // just after the last token
	lost   int // of the last Key or String: by how many bytes its decoded form is shorter, without quotes
	depth  int
	expect expectation
	object bool // the innermost container is an object
	want   string
	Out    *[]byte // where string values are decoded to; nil for nowhere
	// OutFrom is the start of the last of them in *Out.
	OutFrom int
	Cut     *Cuts                        // records positions in long strings; nil for none
	nest    [(MaxDepth + 63) / 64]uint64 // one bit per level: set for objects
}

// Reset starts a document.
func (c *Cursor) Reset(data []byte) {
	c.data, c.pos, c.start, c.end, c.lost, c.depth = data, 0, 0, 0, 0, 0
	c.expect, c.object, c.want, c.Out, c.Cut = expectValue, false, "", nil, nil
}

// At is the position of the last token in the document; strings and keys include their quotes.
func (c *Cursor) At() Span { return Span{Start: c.start, End: c.end} }

// Pos is the position of the next token.
func (c *Cursor) Pos() int { return c.pos }

// Data is the document.
func (c *Cursor) Data() []byte { return c.data }

// Token is the last token, undecoded.
func (c *Cursor) Token() []byte { return c.data[c.start:c.end] }

// Nothing reports, after Next has returned Bad, that the document ends where its value should begin.
func (c *Cursor) Nothing() bool { return c.pos >= len(c.data) && c.want == "a value" }

// Resume continues at an offset at which a value within a container has just ended.
func (c *Cursor) Resume(at int) { c.pos, c.expect = at, expectMore }

// Depth is the number of open containers.
func (c *Cursor) Depth() int { return c.depth }

// TextLen is the decoded length in bytes of the last Key or String. It is exact for valid UTF-8; each half of an
// escaped surrogate pair counts 2 bytes.
func (c *Cursor) TextLen() int { return c.end - c.start - 2 - c.lost }

// Raw is the text of the last Key or String between its quotes, undecoded; plain means without escapes.
func (c *Cursor) Raw() (text []byte, plain bool) { return c.data[c.start+1 : c.end-1], c.lost == 0 }

// Err is the error after Next has returned Bad, else nil.
func (c *Cursor) Err() error {
	if c.expect != expectNothing {
		return nil
	}
	return &SyntaxError{Offset: c.pos, Want: c.want, AtEnd: c.pos >= len(c.data)}
}

// Next reads the next token and returns its kind.
func (c *Cursor) Next() Kind {
	b := c.Peek()
	if c.expect == expectMore {
		switch {
		case b == ',' && c.object:
			c.pos++
			c.expect = expectKey
			b = c.Peek()
		case b == ',':
			c.pos++
			c.expect = expectValue
			b = c.Peek()
		case b == '}' && c.object:
			return c.leave(ObjectEnd)
		case b == ']' && !c.object:
			return c.leave(ArrayEnd)
		case c.object:
			return c.fail(c.pos, "a comma or }")
		default:
			return c.fail(c.pos, "a comma or ]")
		}
	}
	switch c.expect {
	case expectValue:
		return c.value(b)
	case expectKey:
		return c.key(b)
	case expectKeyOrEnd:
		if b == '}' {
			return c.leave(ObjectEnd)
		}
		return c.key(b)
	case expectValueOrEnd:
		if b == ']' {
			return c.leave(ArrayEnd)
		}
		return c.value(b)
	case expectEnd:
		if c.pos == len(c.data) {
			c.start, c.end = c.pos, c.pos
			return End
		}
		return c.fail(c.pos, "nothing more")
	}
	return Bad
}

// Skip skips to the end of the value that starts with the last token, of kind k. It returns false if the document is
// invalid. A scalar is already at its end.
func (c *Cursor) Skip(k Kind) bool {
	switch k {
	case Bad:
		return false
	case Object, Array:
		for floor := c.depth; c.depth >= floor; {
			if c.Next() == Bad {
				return false
			}
		}
	}
	return true
}

// Peek skips white space and returns the next byte, 0 at the end. A zero byte is not a token either.
func (c *Cursor) Peek() byte {
	for c.pos < len(c.data) {
		b := c.data[c.pos]
		if b > ' ' || (b != ' ' && b != '\n' && b != '\t' && b != '\r') {
			return b
		}
		c.pos++
	}
	return 0
}

func (c *Cursor) fail(at int, want string) Kind {
	c.pos, c.start, c.end, c.want, c.expect = at, at, at, want, expectNothing
	return Bad
}

func (c *Cursor) enter(k Kind) Kind {
	if c.depth == MaxDepth {
		return c.fail(c.pos, "at most 10000 levels of nesting")
	}
	word, bit := c.depth>>6, uint64(1)<<(c.depth&63)
	c.object = k == Object
	if c.object {
		c.nest[word] |= bit
		c.expect = expectKeyOrEnd
	} else {
		c.nest[word] &^= bit
		c.expect = expectValueOrEnd
	}
	c.depth++
	c.start = c.pos
	c.pos++
	c.end = c.pos
	return k
}

func (c *Cursor) leave(k Kind) Kind {
	c.start = c.pos
	c.pos++
	c.end = c.pos
	c.depth--
	if c.depth == 0 {
		c.expect = expectEnd
		return k
	}
	top := c.depth - 1
	c.object = c.nest[top>>6]>>(top&63)&1 != 0
	c.expect = expectMore
	return k
}

// scalar ends a token that is a whole value.
func (c *Cursor) scalar(k Kind, end int) Kind {
	c.pos, c.end = end, end
	c.expect = expectMore
	if c.depth == 0 {
		c.expect = expectEnd
	}
	return k
}

func (c *Cursor) value(b byte) Kind {
	c.start = c.pos
	switch b {
	case '"':
		end := 0
		if c.Out == nil {
			end = c.quoted()
		} else {
			end = c.quotedOnto()
		}
		if end < 0 {
			return Bad
		}
		return c.scalar(String, end)
	case '{':
		return c.enter(Object)
	case '[':
		return c.enter(Array)
	case 't':
		return c.word(True, "true")
	case 'f':
		return c.word(False, "false")
	case 'n':
		return c.word(Null, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return c.number()
	}
	return c.fail(c.pos, "a value")
}

func (c *Cursor) key(b byte) Kind {
	if b != '"' {
		if c.expect == expectKeyOrEnd {
			return c.fail(c.pos, `a key in double quotes or }`)
		}
		return c.fail(c.pos, `a key in double quotes`)
	}
	c.start = c.pos
	end := c.quoted()
	if end < 0 {
		return Bad
	}
	c.pos = end
	if c.Peek() != ':' {
		return c.fail(c.pos, "a colon")
	}
	c.pos++
	c.end = end
	c.expect = expectValue
	return Key
}

// FirstByte is the first byte of body that is not white space; 0 for none.
func FirstByte(body []byte) byte {
	var c Cursor
	c.data = body
	return c.Peek()
}

// ErrNotJSON means that a document is not JSON. SyntaxError has details.
var ErrNotJSON = errors.New("the request body is not valid JSON")

// Span is a range of byte offsets in a body, End excluded. The zero Span means absence.
type Span struct{ Start, End int }

// Len is the number of bytes.
func (s Span) Len() int { return s.End - s.Start }

// Value is a scanned value.
type Value struct {
	At   Span
	Kind Kind // Bad when the member is absent
}

// Jump skips the object or array of this length at the position.
func (c *Cursor) Jump(length int) Kind {
	k := Array
	if c.data[c.pos] == '{' {
		k = Object
	}
	c.start = c.pos
	c.scalar(k, c.pos+length)
	return k
}

// SyntaxError says where a body is not JSON. It is ErrNotJSON.
type SyntaxError struct {
	Offset int    // byte of the body that is invalid; the length of the body if it ends too early
	Want   string // what was expected
	AtEnd  bool   // the body ends too early
}

func (e *SyntaxError) Error() string {
	found := ""
	if e.AtEnd {
		found = ", found the end of the body"
	}
	return ErrNotJSON.Error() + ": at byte " + strconv.Itoa(e.Offset) + ": expected " + e.Want + found
}

// Is makes errors.Is(err, ErrNotJSON) true.
func (e *SyntaxError) Is(target error) bool { return target == ErrNotJSON }
