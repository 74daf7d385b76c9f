package engine

import (
	"bytes"
	"encoding/json"
)

// memberOf finds a top-level member of a JSON object and returns its value as it lies there; of several the last, as
// engines take it. ok is false when body is no object that can be read to its end.
func memberOf(body []byte, name string) (value []byte, ok bool) {
	c := cursor{b: body}
	if !c.take('{') {
		return nil, false
	}
	for {
		key, more := c.key()
		if !more {
			return value, c.take('}')
		}
		c.space()
		start := c.i
		if !c.skip() {
			return nil, false
		}
		if string(key) == name {
			value = body[start:c.i]
		}
	}
}

// isNull reports whether a member is absent or null.
func isNull(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// membersOf is memberOf for several members in one pass; values has one for each name, nil where it is absent.
func membersOf(body []byte, names ...string) (values [][]byte, ok bool) {
	values = make([][]byte, len(names))
	c := cursor{b: body}
	if !c.take('{') {
		return values, false
	}
	for {
		key, more := c.key()
		if !more {
			return values, c.take('}')
		}
		c.space()
		start := c.i
		if !c.numbers() && !c.skip() {
			return values, false
		}
		for i, name := range names {
			if string(key) == name {
				values[i] = body[start:c.i]
			}
		}
	}
}

// otherMembers appends the members of an object that have none of the names, each after a comma, as they lie there.
func otherMembers(out, object []byte, but ...string) []byte {
	c := cursor{b: object}
	if !c.take('{') {
		return out
	}
	for {
		c.take(',')
		c.space()
		start := c.i
		key, more := c.key()
		if !more || !c.skip() {
			return out
		}
		name := string(key)
		if bytes.IndexByte(key, '\\') >= 0 && json.Unmarshal(append(append([]byte{'"'}, key...), '"'), &name) != nil {
			return out
		}
		named := false
		for _, b := range but {
			named = named || name == b
		}
		if !named {
			out = append(append(out, ','), object[start:c.i]...)
		}
	}
}

// rewriteMembers appends an object whose members change says anew: a nil name leaves one out. Names are those between the quotes, escapes
// as they are.
func rewriteMembers(out, object []byte, change func(name string, value []byte) (newName, newValue []byte)) ([]byte, bool) {
	c := cursor{b: object}
	if !c.take('{') {
		return out, false
	}
	out = append(out, '{')
	first := true
	for {
		key, more := c.key()
		if !more {
			return append(out, '}'), c.take('}')
		}
		c.space()
		start := c.i
		if !c.skip() {
			return out, false
		}
		name, value := change(string(key), object[start:c.i])
		if name == nil {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(append(out, '"'), name...), '"', ':')
		out = append(out, bytes.TrimSpace(value)...)
	}
}

// MemberNames are the names of the top-level members of a JSON object, escapes as they are; none when it is no object.
func MemberNames(body []byte) []string {
	var names []string
	c := cursor{b: body}
	if !c.take('{') {
		return nil
	}
	for {
		key, more := c.key()
		if !more || !c.skip() {
			return names
		}
		names = append(names, string(key))
	}
}
