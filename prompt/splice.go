package prompt

import (
	"slices"
	"strconv"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Edit replaces the bytes at a span of a body; an empty span inserts.
type Edit struct {
	At   jsonscan.Span
	With []byte

	also   []jsonscan.Span // earlier occurrences of the member, which get the same value
	member bool            // With is a member, to be separated by a comma from what follows
	name   string          // of that member
	last   bool            // the closing brace follows, unless another member is inserted there
}

// Inserts reports whether an edit inserts a member of that name, rather than replacing its value.
func (e *Edit) Inserts(name string) bool { return e.member && e.name == name }

// SetField sets the top-level member called name to a JSON value: all occurrences are replaced, so that no engine reads
// another value; else it is inserted as the first member. Only members recorded by the scan can be set (stream_options,
// model, id_slot, routed_dp_rank, data_parallel_rank, cache_salt and the like); another name, or a body that is not an
// object, panics as a programming error.
func (p *Prompt) SetField(name string, jsonValue []byte) Edit {
	if at := p.Field(name); at != (jsonscan.Span{}) {
		return Edit{At: at, With: jsonValue, also: p.occurrences(name)}
	}
	return p.insert(p.InsertAt, p.Empty, name, jsonValue)
}

// occurrences are the positions of a member before the last.
func (p *Prompt) occurrences(name string) (at []jsonscan.Span) {
	for _, o := range p.earlier {
		if fieldNames[o.field] == name {
			at = append(at, o.at)
		}
	}
	return at
}

// SetModel sets the model.
func (p *Prompt) SetModel(name string) Edit {
	return p.SetField("model", jsonscan.AppendString(make([]byte, 0, len(name)+2), name))
}

// SetIncludeUsage requests usage at the end of a stream (stream_options.include_usage of the OpenAI API), and keeps the
// other stream options.
func (p *Prompt) SetIncludeUsage() Edit {
	switch {
	case p.usageInsertAt == 0:
		return p.SetField("stream_options", []byte(`{"include_usage":true}`))
	case p.usageAt != (jsonscan.Span{}):
		return Edit{At: p.usageAt, With: []byte("true")}
	}
	return p.insert(p.usageInsertAt, p.usageAlone, "include_usage", []byte("true"))
}

func (p *Prompt) insert(at int, alone bool, name string, jsonValue []byte) Edit {
	if at == 0 {
		panic("prompt: " + name + " set in a body that is not a JSON object")
	}
	with := jsonscan.AppendString(make([]byte, 0, len(name)+len(jsonValue)+3), name)
	with = append(append(with, ':'), jsonValue...)
	return Edit{At: jsonscan.Span{Start: at, End: at}, With: with, member: true, name: name, last: alone}
}

// Splice appends body with the edits applied to dst. All other bytes are unchanged. Edits may come in any order; those
// at the same position are applied in the given order, but of edits that set one member the last wins. An edit inside a
// part that another one replaces is dropped. Edits that overlap otherwise or are outside the body panic as a
// programming error; those of SetField and SetIncludeUsage never do.
func Splice(dst, body []byte, edits ...Edit) []byte {
	edits = settle(edits)
	grow := len(body)
	for i := range edits {
		grow += len(edits[i].With) + 1
	}
	dst = slices.Grow(dst, grow)
	done := 0
	for i := range edits {
		e := &edits[i]
		e.check(body, done)
		dst = append(dst, body[done:e.At.Start]...)
		dst = append(dst, e.With...)
		if e.comma(edits[i+1:]) {
			dst = append(dst, ',')
		}
		done = e.At.End
	}
	return append(dst, body[done:]...)
}

// longPiece is the length above which Pieces refers to bytes instead of copying them.
const longPiece = 4 << 10

// Pieces is the result of Splice in pieces: long parts of the body and long values of edits are referred to in place.
// The rules for edits are those of Splice.
func Pieces(body []byte, edits ...Edit) [][]byte {
	edits = settle(edits)
	var (
		pieces [][]byte
		short  []byte // the short parts so far
	)
	add := func(b []byte) {
		if len(b) < longPiece {
			short = append(short, b...)
			return
		}
		if len(short) > 0 {
			pieces, short = append(pieces, short), nil
		}
		pieces = append(pieces, b)
	}
	done := 0
	for i := range edits {
		e := &edits[i]
		e.check(body, done)
		add(body[done:e.At.Start])
		add(e.With)
		if e.comma(edits[i+1:]) {
			add([]byte{','})
		}
		done = e.At.End
	}
	add(body[done:])
	if len(short) > 0 || len(pieces) == 0 {
		pieces = append(pieces, short)
	}
	return pieces
}

// settle sorts edits and drops those overridden by others.
func settle(edits []Edit) []Edit {
	edits = spread(edits)
	if !slices.IsSortedFunc(edits, compareEdits) {
		edits = slices.Clone(edits)
		slices.SortStableFunc(edits, compareEdits)
	}
	var left []Edit
	dropped := false
	before, reach := 0, 0 // the first edit that does not begin before this one, and how far those before it reach
	for i := range edits {
		e := &edits[i]
		for ; edits[before].At.Start < e.At.Start; before++ {
			reach = max(reach, edits[before].At.End)
		}
		within := e.At.Start < reach && e.At.End <= reach // what is replaced
		switch {
		case !within && !e.setAgain(edits[i+1:]):
			if dropped {
				left = append(left, *e)
			}
		case !dropped:
			dropped, left = true, slices.Clone(edits[:i])
		}
	}
	if dropped {
		return left
	}
	return edits
}

// setAgain reports whether one of the next edits sets the same member or value.
func (e *Edit) setAgain(next []Edit) bool {
	for i := range next {
		o := &next[i]
		if o.At != e.At {
			return false
		}
		if o.member == e.member && o.name == e.name && (e.member || e.At.Len() > 0) {
			return true
		}
	}
	return false
}

// spread makes an edit for each occurrence of a member.
func spread(edits []Edit) []Edit {
	if !slices.ContainsFunc(edits, func(e Edit) bool { return len(e.also) > 0 }) {
		return edits
	}
	var all []Edit
	for i := range edits {
		for _, at := range edits[i].also {
			all = append(all, Edit{At: at, With: edits[i].With})
		}
		all = append(all, edits[i])
	}
	return all
}

// check panics when an edit overlaps an earlier one, or is outside the body.
func (e *Edit) check(body []byte, done int) {
	if e.At.Start < done || e.At.End < e.At.Start || e.At.End > len(body) {
		panic("prompt: edit of bytes " + strconv.Itoa(e.At.Start) + " to " + strconv.Itoa(e.At.End) +
			" overlaps another or is outside the body")
	}
}

// comma reports whether a comma must follow an inserted member.
func (e *Edit) comma(next []Edit) bool {
	return e.member && (!e.last || len(next) > 0 && next[0].member && next[0].At == e.At)
}

func compareEdits(a, b Edit) int {
	if a.At.Start != b.At.Start {
		return a.At.Start - b.At.Start
	}
	return a.At.End - b.At.End
}

// editable returns the field called name, or panics.
func editable(name string) field {
	if f := findField(name); f < numEditable {
		return f
	}
	panic("prompt: " + strconv.Quote(name) + " is not a member that can be set")
}

// Field is the position of a top-level member's value; zero when absent. Of duplicates it is the last. Only the members
// that SetField can set are known; another name panics.
func (p *Prompt) Field(name string) jsonscan.Span { return p.fields[editable(name)] }
