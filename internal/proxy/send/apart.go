package send

import (
	"slices"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// apart adds the edits that keep apart by tenant the ids which clients give in the body: of their requests, request_id
// of vLLM and rid of SGLang, which may be a list, and of media that vLLM keeps. An image's hash in SGLang could be any
// client's: it gets none (mm_content_hashes are content_hash of /generate), and computes its own. How long Ollama keeps
// a model after a request (keep_alive, 0 is not at all) is its operator's to say, since all tenants use the model.
func (a *Outgoing) apart(edits []prompt.Edit) []prompt.Edit {
	c, t := a.c, a.s.cfg.Tenants
	if t == nil || c.Body == nil || c.Prompt.InsertAt == 0 {
		return edits
	}
	mark := t.Mark(c.Request.Tenant)
	edits = slices.Grow(edits, len(c.Media.Digests)+len(c.Media.Names))
	for _, at := range c.Media.Digests {
		edits = append(edits, prompt.Edit{At: at, With: []byte("null")})
	}
	for _, at := range c.Media.Names {
		id := string(c.Body.Bytes[at.Start:at.End])
		if id[0] == '"' {
			id = jsonscan.Decode(c.Body.Bytes, at)
		}
		edits = append(edits, prompt.Edit{At: at, With: quoted(mark.Apart(id), at.Len())})
	}
	for _, name := range [...]string{"mm_hashes", "mm_content_hashes", "keep_alive"} {
		if !rawjson.IsNull(c.member(name)) {
			edits = append(edits, c.Prompt.SetField(name, []byte("null")))
		}
	}
	for _, name := range [...]string{"request_id", "rid"} {
		at := c.Prompt.Field(name)
		if at.Len() == 0 {
			continue
		}
		value := c.Body.Bytes[at.Start:at.End]
		var cur jsonscan.Cursor
		cur.Reset(value)
		switch cur.Next() {
		case jsonscan.String:
			id := mark.Apart(jsonscan.Decode(value, cur.At()))
			edits = append(edits, c.Prompt.SetField(name, quoted(id, at.Len())))
		case jsonscan.Array:
			list := append(make([]byte, 0, 2*at.Len()), '[')
			for kind := cur.Next(); kind == jsonscan.String; kind = cur.Next() {
				if len(list) > 1 {
					list = append(list, ',')
				}
				list = jsonscan.AppendString(list, mark.Apart(jsonscan.Decode(value, cur.At())))
			}
			edits = append(edits, c.Prompt.SetField(name, append(list, ']')))
		default:
		}
	}
	return edits
}

// quoted is a marked id as JSON. was is its bytes before it was marked, as JSON: it takes few more now.
func quoted(id string, was int) []byte { return jsonscan.AppendString(make([]byte, 0, was+20), id) }
