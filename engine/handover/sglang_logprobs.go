package handover

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/rawjson"
)

// Merges implements Merger: log probabilities of the prompt exist at the prefiller.
func (SGLang) Merges(x *Request) bool {
	switch x.API {
	case answer.APIGenerate:
		return !rawjson.IsNull(x.Field(returnLogprob)) && string(x.Field(returnLogprob)) != "false"
	case answer.APICompletions:
		return string(x.Field("echo")) == "true" && !rawjson.IsNull(x.Field("logprobs"))
	case answer.APIChat:
		return string(x.Field("logprobs")) == "true"
	default:
		return false
	}
}

// Merge implements Merger. In meta_info, which /generate has and other APIs may have in their choices, the prefill
// server's lists of the prompt are put before the decode server's (SMG does the same, in each event of a stream). A
// completion with echo has them in its choices' logprobs instead: there the prefill server's are used without the token
// it generated.
func (SGLang) Merge(x *Request, reply, body []byte, event int) []byte {
	replies := objectsOf(reply)
	if len(replies) == 0 {
		return body
	}
	switch x.API {
	case answer.APIGenerate:
		return eachObject(body, func(i int, one []byte) []byte {
			return mergeMeta(pickOf(replies, one, i), one)
		})
	case answer.APICompletions, answer.APIChat:
		choices, ok := rawjson.Member(body, "choices")
		if !ok || rawjson.IsNull(choices) {
			return body
		}
		var from [][]byte
		for _, r := range replies {
			list, _ := rawjson.Member(r, "choices")
			from = append(from, elementsOf(list)...)
		}
		return replaced(body, choices, eachObject(choices, func(i int, one []byte) []byte {
			of := pickOf(from, one, i)
			one = mergeMeta(of, one)
			if x.API == answer.APICompletions && event == 0 {
				one = mergeEcho(of, one)
			}
			return one
		}))
	default:
		return body
	}
}

// mergeMeta puts the lists of the prompt in one object's meta_info before those in another's. They have an element per
// token (SGLang 0.5.23, tokenizer_manager.py).
func mergeMeta(from, to []byte) []byte {
	theirs, _ := rawjson.Member(from, "meta_info")
	ours, _ := rawjson.Member(to, "meta_info")
	if rawjson.IsNull(theirs) || rawjson.IsNull(ours) {
		return to
	}
	merged := ours
	for _, name := range [...]string{"input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs"} {
		before, _ := rawjson.Member(theirs, name)
		after, _ := rawjson.Member(merged, name)
		if len(before) > 2 && before[0] == '[' &&
			(rawjson.IsNull(after) && len(after) > 0 || len(after) > 0 && after[0] == '[') {
			merged = replaced(merged, after, joined(before, after))
		}
	}
	return replaced(to, ours, merged)
}

// mergeEcho puts the tokens of the prompt before those of a completion, in the lists of its logprobs.
func mergeEcho(from, to []byte) []byte {
	theirs, _ := rawjson.Member(from, "logprobs")
	ours, _ := rawjson.Member(to, "logprobs")
	if rawjson.IsNull(theirs) || rawjson.IsNull(ours) {
		return to
	}
	merged := ours
	for _, name := range [...]string{"tokens", "token_logprobs", "top_logprobs", "text_offset"} {
		before, _ := rawjson.Member(theirs, name)
		after, _ := rawjson.Member(merged, name)
		list := elementsOf(before)
		if len(list) < 2 || len(after) == 0 || after[0] != '[' {
			continue
		}
		last := list[len(list)-2]
		end := cap(before) - cap(last) + len(last)
		merged = replaced(merged, after, joined(append(bytes.Clone(before[:end]), ']'), after))
	}
	return replaced(to, ours, merged)
}

// objectsOf are the JSON objects of a reply: itself, those of its list, or those of the events of a stream.
func objectsOf(reply []byte) [][]byte {
	reply = bytes.TrimSpace(reply)
	switch {
	case len(reply) == 0:
		return nil
	case reply[0] == '{':
		return [][]byte{reply}
	case reply[0] == '[':
		return elementsOf(reply)
	}
	var out [][]byte
	for len(reply) > 0 {
		var line []byte
		line, reply, _ = bytes.Cut(reply, []byte("\n"))
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
				out = append(out, data)
			}
		}
	}
	return out
}

// pickOf is the object about the same answer: with the same index, else at the same position. Of a stream's events the
// first has what is needed.
func pickOf(from [][]byte, one []byte, place int) []byte {
	index, _ := rawjson.Member(one, "index")
	if !rawjson.IsNull(index) {
		for _, f := range from {
			if i, _ := rawjson.Member(f, "index"); string(i) == string(index) {
				return f
			}
		}
	}
	if place < len(from) {
		return from[place]
	}
	return nil
}

// elementsOf are the elements of a JSON list, which share its memory.
func elementsOf(list []byte) [][]byte {
	c := rawjson.Cursor{Data: list}
	if !c.Take('[') {
		return nil
	}
	var out [][]byte
	for {
		c.Space()
		start := c.Pos
		if !c.Skip() {
			return out
		}
		out = append(out, list[start:c.Pos])
		if !c.Take(',') {
			return out
		}
	}
}

// eachObject changes an object, or each object of a list.
func eachObject(value []byte, change func(place int, one []byte) []byte) []byte {
	if len(value) == 0 || value[0] != '[' {
		return change(0, value)
	}
	out := value
	elements := elementsOf(value)
	for i := len(elements) - 1; i >= 0; i-- { // from the end, so that other positions stay valid
		at := cap(value) - cap(elements[i])
		end := at + len(elements[i])
		if with := change(i, elements[i]); !bytes.Equal(with, elements[i]) {
			out = append(append(bytes.Clone(out[:at]), with...), out[end:]...)
		}
	}
	return out
}

// replaced is a document with one part replaced.
func replaced(doc, part, with []byte) []byte {
	at := cap(doc) - cap(part)
	if len(part) == 0 || at < 0 || at+len(part) > len(doc) {
		return doc
	}
	out := make([]byte, 0, len(doc)+len(with)-len(part))
	return append(append(append(out, doc[:at]...), with...), doc[at+len(part):]...)
}

// joined is two lists concatenated; the second may be null.
func joined(a, b []byte) []byte {
	inner := bytes.TrimSpace(a[1 : len(a)-1])
	rest := []byte{}
	if !rawjson.IsNull(b) {
		rest = bytes.TrimSpace(b[1 : len(b)-1])
	}
	out := make([]byte, 0, len(inner)+len(rest)+3)
	out = append(append(out, '['), inner...)
	if len(inner) > 0 && len(rest) > 0 {
		out = append(out, ',')
	}
	return append(append(out, rest...), ']')
}
