package rawjson

import "strconv"

// Count counts the elements of a list, up to most; -1 if it is not a list.
func Count(list []byte, most int) int {
	c := Cursor{Data: list}
	if !c.Take('[') {
		return -1
	}
	n := 0
	for ; n < most && !c.Take(']'); n++ {
		if n > 0 && !c.Take(',') || !c.Skip() {
			return -1
		}
	}
	return n
}

// Element is one element of a list; nil if there are fewer.
func Element(list []byte, at int) []byte {
	c := Cursor{Data: list}
	if !c.Take('[') {
		return nil
	}
	for i := 0; ; i++ {
		if i > 0 && !c.Take(',') {
			return nil
		}
		c.Space()
		start := c.Pos
		if !c.Skip() {
			return nil
		}
		if i == at {
			return list[start:c.Pos]
		}
	}
}

// ListOf is a list of one element.
func ListOf(element []byte) []byte {
	return append(append([]byte{'['}, element...), ']')
}

// First is a value, or the first element of a list.
func First(value []byte) []byte {
	if len(value) > 0 && value[0] == '[' {
		return Element(value, 0)
	}
	return value
}

// OrNull is a value, or null if it is absent.
func OrNull(value []byte) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}

// IsWhole reports whether a value is a non-negative whole number of at most 64 bits.
func IsWhole(value []byte) bool {
	_, err := strconv.ParseUint(string(value), 10, 64)
	return err == nil && (value[0] != '0' || len(value) == 1)
}

// RewriteList appends a list with rewritten elements.
func RewriteList(out, list []byte, write func(out, element []byte, i int) ([]byte, bool)) ([]byte, bool) {
	c := Cursor{Data: list}
	if !c.Take('[') {
		return out, false
	}
	out = append(out, '[')
	for i := 0; !c.Take(']'); i++ {
		if i > 0 {
			if !c.Take(',') {
				return out, false
			}
			out = append(out, ',')
		}
		c.Space()
		start := c.Pos
		if !c.Skip() {
			return out, false
		}
		var ok bool
		if out, ok = write(out, list[start:c.Pos], i); !ok {
			return out, false
		}
	}
	return append(out, ']'), true
}
