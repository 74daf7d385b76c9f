package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// ResponseID is the top-level "id" of a JSON answer that begins with head; "" if head does not contain it.
func ResponseID(head []byte) string {
	return idOf(&rawjson.Cursor{Data: head}, "")
}

// idOf reads an object up to its member "id" and returns that, or the "id" of its member parent.
func idOf(c *rawjson.Cursor, parent string) string {
	if !c.Take('{') {
		return ""
	}
	for {
		key, ok := c.Key()
		switch {
		case !ok:
			return ""
		case parent == "" && string(key) == "id":
			id, ok := c.Str()
			if !ok || len(id) > MaxIDBytes || bytes.IndexByte(id, '\\') >= 0 {
				return ""
			}
			return string(id)
		case parent != "" && string(key) == parent:
			return idOf(c, "")
		}
		if !c.Skip() {
			return ""
		}
	}
}

// MaxIDBytes bounds the id of a response; the engines' own are 37 to 53 bytes long.
const MaxIDBytes = 256

// KeptIDs are the ids of what an engine keeps that a whole JSON answer names: its own, those of the files that a job
// has written and of the items of a response, or the text that the answer is (SGLang's /open_session). It is nil while
// the answer is incomplete.
func KeptIDs(body []byte) (ids []string) {
	take := func(value []byte) {
		c := rawjson.Cursor{Data: value}
		if id, ok := c.Str(); ok && len(id) > 0 && len(id) <= MaxIDBytes && bytes.IndexByte(id, '\\') < 0 {
			ids = append(ids, string(id))
		}
	}
	body = bytes.TrimSpace(body)
	if len(body) > 1 && body[0] == '"' && body[len(body)-1] == '"' {
		take(body)
		return ids
	}
	values, ok := rawjson.Members(body, "id", "output_file_id", "error_file_id", "output")
	if !ok {
		return nil
	}
	last := len(values) - 1
	for _, v := range values[:last] {
		take(v)
	}
	items := rawjson.Cursor{Data: values[last]}
	for more := items.Take('['); more && len(ids) < mostItems; more = items.Take(',') {
		items.Space()
		from := items.Pos
		if !items.Skip() {
			break
		}
		if id := ResponseID(items.Data[from:items.Pos]); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// mostItems bounds the items of one response whose ids are taken.
const mostItems = 64
