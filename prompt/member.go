package prompt

import "github.com/warmpath/warmpath/prompt/jsonscan"

// SetMember appends a JSON object to dst with one member set to a JSON value: the last occurrence is replaced, else it
// is inserted as the first member. All other bytes are unchanged. The errors are ErrNotObject and ErrNotJSON (a
// *SyntaxError).
func SetMember(dst, object []byte, name string, jsonValue []byte) ([]byte, error) {
	var c jsonscan.Cursor
	c.Reset(object)
	if kind := c.Next(); kind == jsonscan.Bad {
		return dst, c.Err()
	} else if kind != jsonscan.Object {
		return dst, ErrNotObject
	}
	insert, members, at := c.At().End, 0, jsonscan.Span{}
	for kind := c.Next(); kind != jsonscan.ObjectEnd; kind = c.Next() {
		if kind == jsonscan.Bad {
			return dst, c.Err()
		}
		found := string(decoded(&c)) == name
		value := c.Next()
		start := c.At().Start
		if !c.Skip(value) {
			return dst, c.Err()
		}
		if members++; found {
			at = jsonscan.Span{Start: start, End: c.At().End}
		}
	}
	if c.Next() == jsonscan.Bad {
		return dst, c.Err()
	}
	if at != (jsonscan.Span{}) {
		return Splice(dst, object, Edit{At: at, With: jsonValue}), nil
	}
	with := append(append(jsonscan.AppendString(nil, name), ':'), jsonValue...)
	return Splice(dst, object, Edit{
		At: jsonscan.Span{Start: insert, End: insert}, With: with, member: true, last: members == 0,
	}), nil
}
