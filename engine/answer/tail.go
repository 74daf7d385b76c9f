package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// tail reads a JSON answer from its end backwards; the beginning may be missing. That is safe: the end of an answer is
// outside any string, and a quote is escaped if and only if an odd number of backslashes precedes it, so strings and
// nesting are known at each step. The model's text is inside strings (or, for arguments of tools, nested deeper than
// usage), so it cannot be mistaken for usage.
type tail struct {
	api     string
	inner   bool // the usage is nested in the member "response" or "message" of a stream's event
	trusted bool // the name of that member may be cut off: the event's type is known otherwise

	f     figures // what was found
	found bool
	usage bool    // one of the usage objects was read; of several with one name the last counts
	batch figures // sum over the items of an array of SGLang answers
	items int
	done  bool // Ollama's "done": true, or llama.cpp's "stop": true
}

// read reads b, and returns whether something was found.
func (t *tail) read(b []byte) bool {
	t.f, t.batch = noFigures(), noFigures()
	i := len(b)
	for i > 0 && rawjson.IsSpace(b[i-1]) {
		i--
	}
	if i == 0 || b[i-1] != '}' && b[i-1] != ']' {
		return false // cut off at its end: strings cannot be told from the rest
	}
	depth, within := 0, -1 // within: the value of a nested usage whose parent's name is still to come
	for i > 0 {
		i--
		switch b[i] {
		case '"':
			if i = opening(b, i); i < 0 {
				return t.cut(b, within)
			}
		case '}', ']':
			depth++
		case '{', '[':
			if depth--; depth <= 0 {
				if b[i] == '[' && t.items > 0 {
					t.f, t.found = t.batch, true
				}
				return t.found
			}
		case ':':
			colon := i
			key, at := keyBefore(b, i)
			if at < 0 {
				return t.cut(b, within)
			}
			i = at
			switch depth {
			case 1:
				if within >= 0 && (string(key) == "response" || string(key) == "message") {
					t.takeUsage(b[within:])
				}
				within = -1
				if t.top(key, b[colon+1:]) {
					return true
				}
			case 2:
				within = t.below(key, b, colon+1, within)
			}
		}
	}
	return t.cut(b, within)
}

// cut ends a reading whose document began before b.
func (t *tail) cut(b []byte, within int) bool {
	if t.trusted && within >= 0 && !t.found {
		t.takeUsage(b[within:])
	}
	return t.found
}

func (t *tail) takeUsage(value []byte) {
	if !t.usage && t.f.object(value) {
		t.usage, t.found = true, true
	}
}

func (t *tail) take(value []byte) {
	if t.f.object(value) {
		t.found = true
	}
}

// top reads a top-level member of the answer, and reports whether nothing more is needed.
func (t *tail) top(key, value []byte) (enough bool) {
	switch t.api {
	case APICountTokens:
		return true
	case APIGenerate:
		if string(key) == "meta_info" {
			t.take(value)
			return t.found
		}
		return false
	case APIOllamaChat, APIOllamaGenerate:
		t.number(key, value)
		return false
	}
	switch string(key) {
	case "usage":
		t.takeUsage(value)
		return t.usage && (t.f[detailCached] >= 0 || t.f[cacheRead] >= 0)
	case "timings":
		t.take(value)
	case "meta_info":
		if t.api == APIOther {
			t.take(value)
		}
	default:
		switch t.api {
		case APIOther, APICompletions, APIEmbeddings:
			t.number(key, value)
		}
	}
	return false
}

func (t *tail) number(key, value []byte) {
	c := rawjson.Cursor{Data: value}
	switch string(key) {
	case "done", "stop":
		c.Space()
		t.done = t.done || string(c.Word()) == "true"
		return
	case "total_duration", "stop_type":
		// of the last event only; what stands before it may be cut off: the context, or the prompt
		t.done = true
	}
	fig := topFigure(key)
	if fig == noFigure {
		return
	}
	if n, ok := c.Count(); ok && t.f[fig] < 0 {
		t.f[fig], t.found = n, true
	}
}

// below reads a nested member, and returns the new value of within.
func (t *tail) below(key, b []byte, value, within int) int {
	switch {
	case t.api == APIGenerate && string(key) == "meta_info":
		f := noFigures()
		if f.object(b[value:]) {
			t.batch.add(&f)
			t.items++
		}
	case t.inner && string(key) == "usage" && within < 0:
		return value
	}
	return within
}

// opening is the index of the quote that opens the string which the quote at end closes, -1 when it is cut off.
func opening(b []byte, end int) int {
	for {
		i := bytes.LastIndexByte(b[:end], '"')
		if i < 0 {
			return -1
		}
		slashes := 0
		for slashes < i && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		end = i
	}
}

// keyBefore is the key whose colon is at colon, and the index of the quote that opens it; -1 when there is none.
func keyBefore(b []byte, colon int) (key []byte, at int) {
	end := colon - 1
	for end >= 0 && rawjson.IsSpace(b[end]) {
		end--
	}
	if end < 0 || b[end] != '"' {
		return nil, -1
	}
	at = opening(b, end)
	if at < 0 {
		return nil, -1
	}
	return b[at+1 : end], at
}

// TailBytes is how much of the end of an answer, or of one event of a stream, is read. Usage is at the end of most
// answers; only what follows it (llama.cpp's timings, Responses' user and metadata) must fit. Counts reads the others.
const TailBytes = 8 << 10

func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
