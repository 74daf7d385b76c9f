package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Member returns the value of a top-level member of a JSON object, in place; of several the last, as engines do. ok is
// false when body is not a complete object.
func Member(body []byte, name string) (value []byte, ok bool) {
	c := Cursor{Data: body}
	if !c.Take('{') {
		return nil, false
	}
	for {
		key, more := c.Key()
		if !more {
			return value, c.Take('}')
		}
		c.Space()
		start := c.Pos
		if !c.Skip() {
			return nil, false
		}
		if string(key) == name {
			value = body[start:c.Pos]
		}
	}
}

// IsNull reports whether a member is absent or null.
func IsNull(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// Members is Member for several names in one pass; values has one per name, nil if absent.
func Members(body []byte, names ...string) (values [][]byte, ok bool) {
	values = make([][]byte, len(names))
	c := Cursor{Data: body}
	if !c.Take('{') {
		return values, false
	}
	for {
		key, more := c.Key()
		if !more {
			return values, c.Take('}')
		}
		c.Space()
		start := c.Pos
		if !c.numbers() && !c.Skip() {
			return values, false
		}
		for i, name := range names {
			if string(key) == name {
				values[i] = body[start:c.Pos]
			}
		}
	}
}

// AppendOthers appends the members of an object except those named, unchanged, each after a comma.
func AppendOthers(out, object []byte, but ...string) []byte {
	c := Cursor{Data: object}
	if !c.Take('{') {
		return out
	}
	for {
		c.Take(',')
		c.Space()
		start := c.Pos
		key, more := c.Key()
		if !more || !c.Skip() {
			return out
		}
		name := Decoded(string(key))
		named := false
		for _, b := range but {
			named = named || name == b
		}
		if !named {
			out = append(append(out, ','), object[start:c.Pos]...)
		}
	}
}

// Decoded is a name without quotes as it is meant; one with a faulty escape is left as it stands.
func Decoded(name string) string {
	var decoded string
	if strings.IndexByte(name, '\\') < 0 || json.Unmarshal([]byte(`"`+name+`"`), &decoded) != nil {
		return name
	}
	return decoded
}

// RewriteObject appends an object with members changed by change: a nil name omits one. Names are without quotes, still
// escaped.
func RewriteObject(
	out, object []byte, change func(name string, value []byte) (newName, newValue []byte),
) ([]byte, bool) {
	c := Cursor{Data: object}
	if !c.Take('{') {
		return out, false
	}
	out = append(out, '{')
	first := true
	for {
		key, more := c.Key()
		if !more {
			return append(out, '}'), c.Take('}')
		}
		c.Space()
		start := c.Pos
		if !c.Skip() {
			return out, false
		}
		name, value := change(string(key), object[start:c.Pos])
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

// Names are the names of an object's top-level members, still escaped; none when it is not an object.
func Names(body []byte) []string {
	var names []string
	c := Cursor{Data: body}
	if !c.Take('{') {
		return nil
	}
	for {
		key, more := c.Key()
		if !more || !c.Skip() {
			return names
		}
		names = append(names, string(key))
	}
}
