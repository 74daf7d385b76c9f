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
	member bool            // With is a member to be set off by a comma from what follows
	name   string          // of that member
	last   bool            // what follows is the closing brace, unless another member is inserted there
}

// SetField sets the top-level member called name to a JSON value: replaces the value if the member is there (all of them, if
// it is there more than once: no engine is to read another), else inserts it as a first member. Only the
// members that the scan records can be set (stream_options, model, id_slot, routed_dp_rank, data_parallel_rank,
// cache_salt and the like); another name, or a body that is no object, is a mistake of the caller and panics.
func (p *Prompt) SetField(name string, jsonValue []byte) Edit {
	if at := p.Field(name); at != (jsonscan.Span{}) {
		return Edit{At: at, With: jsonValue, also: p.occurrences(name)}
	}
	return p.insert(p.InsertAt, p.Empty, name, jsonValue)
}

// occurrences are the places of a member before the last.
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

// SetIncludeUsage asks for usage at the end of a stream (stream_options.include_usage of the OpenAI API), and keeps the
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

// Splice appends body with the edits made to dst. All other bytes stay as they are. The edits may come in any order;
// those at the same place are made in the order given, but a member that is set twice is the one that was given last. An edit of
// what another one replaces as a whole is not made. Edits that overlap otherwise or lie outside the body are a mistake of the
// caller and panic; those that SetField and SetIncludeUsage make never do.
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

// longPiece is the length from which Pieces refers to bytes instead of copying them.
const longPiece = 4 << 10

// Pieces is what Splice makes, as pieces to be sent one after another: long runs of the body, and long values of edits, are
// referred to where they lie and not copied. The rules for edits are those of Splice.
func Pieces(body []byte, edits ...Edit) [][]byte {
	edits = settle(edits)
	var (
		pieces [][]byte
		short  []byte // what is gathered
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

// settle puts edits in order and leaves out those that others make void.
func settle(edits []Edit) []Edit {
	edits = spread(edits)
	if !slices.IsSortedFunc(edits, compareEdits) {
		edits = slices.Clone(edits)
		slices.SortStableFunc(edits, compareEdits)
	}
	void := func(i int) bool {
		e := &edits[i]
		for j := range edits {
			o := &edits[j]
			switch {
			case j > i && o.At == e.At && o.member == e.member && o.name == e.name && (e.member || e.At.Len() > 0): // set again
				return true
			case j < i && o.At.Start < e.At.Start && e.At.End <= o.At.End && e.At.Start < o.At.End: // inside what is replaced
				return true
			}
		}
		return false
	}
	for i := range edits {
		if !void(i) {
			continue
		}
		left := slices.Clone(edits[:i])
		for k := i + 1; k < len(edits); k++ {
			if !void(k) {
				left = append(left, edits[k])
			}
		}
		return left
	}
	return edits
}

// spread makes an edit of each occurrence of a member.
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

// check panics when an edit overlaps what is done, or lies outside the body.
func (e *Edit) check(body []byte, done int) {
	if e.At.Start < done || e.At.End < e.At.Start || e.At.End > len(body) {
		panic("prompt: edit of bytes " + strconv.Itoa(e.At.Start) + " to " + strconv.Itoa(e.At.End) +
			" overlaps another or is outside the body")
	}
}

// comma reports whether a member that is inserted is set off from what follows.
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
	for f := range numEditable {
		if fieldNames[f] == name {
			return f
		}
	}
	panic("prompt: " + strconv.Quote(name) + " is not a member that can be set")
}

// Field is where the value of a top-level member is, the zero Span when it is absent. Of a member given twice it is
// the last. Only the members that SetField can set are known; asking for another is a mistake and panics.
func (p *Prompt) Field(name string) jsonscan.Span { return p.fields[editable(name)] }
