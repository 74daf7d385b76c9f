package engine

import "strconv"

// elements counts the elements of a list, as far as most; -1 for what is no list.
func elements(list []byte, most int) int {
	c := cursor{b: list}
	if !c.take('[') {
		return -1
	}
	n := 0
	for ; n < most && !c.take(']'); n++ {
		if n > 0 && !c.take(',') || !c.skip() {
			return -1
		}
	}
	return n
}

// element is one element of a list, nil when it has not so many.
func element(list []byte, at int) []byte {
	c := cursor{b: list}
	if !c.take('[') {
		return nil
	}
	for i := 0; ; i++ {
		if i > 0 && !c.take(',') {
			return nil
		}
		c.space()
		start := c.i
		if !c.skip() {
			return nil
		}
		if i == at {
			return list[start:c.i]
		}
	}
}

// slicesOf is a list of one element.
func slicesOf(element []byte) []byte {
	return append(append([]byte{'['}, element...), ']')
}

// firstOf is a value, or the first of a list of them.
func firstOf(value []byte) []byte {
	if len(value) > 0 && value[0] == '[' {
		return element(value, 0)
	}
	return value
}

func orNull(value []byte) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}

// isWhole reports whether a value is a whole number that is not negative, of 64 bits at most.
func isWhole(value []byte) bool {
	_, err := strconv.ParseUint(string(value), 10, 64)
	return err == nil && (value[0] != '0' || len(value) == 1)
}

// eachElement appends a list whose elements are written anew.
func eachElement(out, list []byte, write func(out, element []byte, i int) ([]byte, bool)) ([]byte, bool) {
	c := cursor{b: list}
	if !c.take('[') {
		return out, false
	}
	out = append(out, '[')
	for i := 0; !c.take(']'); i++ {
		if i > 0 {
			if !c.take(',') {
				return out, false
			}
			out = append(out, ',')
		}
		c.space()
		start := c.i
		if !c.skip() {
			return out, false
		}
		var ok bool
		if out, ok = write(out, list[start:c.i], i); !ok {
			return out, false
		}
	}
	return append(out, ']'), true
}
