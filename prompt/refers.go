package prompt

import "github.com/warmpath/warmpath/prompt/jsonscan"

// Refers lists the ids by which a body refers to what engines keep for a client: earlier responses, conversations of the Responses API,
// files, and sessions of SGLang. Of a repeated member it lists every value, since engines differ in which they take. A body that is
// not a JSON object refers to nothing.
func Refers(api API, path string, body []byte) (ids []string) {
	var c jsonscan.Cursor
	c.Reset(body)
	if c.Next() != jsonscan.Object {
		return nil
	}
	for c.Next() == jsonscan.Key {
		name, plain := c.Raw()
		if !plain {
			name = jsonscan.AppendDecoded(nil, name)
		}
		if found := refers(api, path, string(name)); !found {
			if !c.Skip(c.Next()) {
				return ids
			}
			continue
		}
		var ok bool
		if ids, ok = idsIn(&c, body, ids); !ok {
			return ids
		}
	}
	return ids
}

// refers reports whether a top-level member has such an id. A conversation is an engine's own only in the Responses API.
func refers(api API, path, name string) bool {
	switch name {
	case "previous_response_id", "response_id", "input_file_id", "file_id", "file_ids", "training_file", "validation_file", "session_params":
		return true
	case "conversation":
		return api == Responses || api == Other
	case "session_id":
		return path == "/close_session"
	}
	return false
}

// idsIn reads a value: an id, a list of ids, or an object with an id.
func idsIn(c *jsonscan.Cursor, body []byte, ids []string) ([]string, bool) {
	switch kind := c.Next(); kind {
	case jsonscan.String:
		return append(ids, jsonscan.Decode(body, c.At())), true
	case jsonscan.Array:
		for kind = c.Next(); kind != jsonscan.ArrayEnd; kind = c.Next() {
			if kind == jsonscan.String {
				ids = append(ids, jsonscan.Decode(body, c.At()))
			} else if !c.Skip(kind) {
				return ids, false
			}
		}
		return ids, true
	case jsonscan.Object:
		for kind = c.Next(); kind == jsonscan.Key; kind = c.Next() {
			name, plain := c.Raw()
			if !plain {
				name = jsonscan.AppendDecoded(nil, name)
			}
			value := c.Next()
			if value == jsonscan.String && string(name) == "id" {
				ids = append(ids, jsonscan.Decode(body, c.At()))
			} else if !c.Skip(value) {
				return ids, false
			}
		}
		return ids, kind == jsonscan.ObjectEnd
	default:
		return ids, c.Skip(kind)
	}
}
