package handover

import (
	"strconv"

	"github.com/warmpath/warmpath/engine/answer"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// AsStream is a non-streamed answer as the events of a stream (OpenAI API, "chat.completion.chunk" and
// "text_completion"): its text in one chunk, the finish reason in the next, requested usage in one more, and the end
// mark. The chunks keep all members of the answer. ok is false for anything else.
func AsStream(api string, body []byte, usage bool) (events []byte, ok bool) {
	values, ok := rawjson.Members(body, "choices", "usage")
	choices := values[0]
	if !ok || rawjson.Count(choices, 1) != 1 {
		return nil, false
	}
	event := func(choices []byte, usage []byte) bool {
		events = append(events, "data: "...)
		events, ok = rawjson.RewriteObject(events, body, func(name string, value []byte) ([]byte, []byte) {
			switch name {
			case "choices":
				value = choices
			case "usage":
				if value = usage; value == nil {
					return nil, nil
				}
			case "object":
				if api == answer.APIChat {
					value = []byte(`"chat.completion.chunk"`)
				}
			}
			return []byte(name), value
		})
		events = append(events, "\n\n"...)
		return ok
	}
	said, ended := choices, []byte(nil)
	if api == answer.APIChat {
		if said, ok = rawjson.RewriteList(nil, choices, saidOf); !ok {
			return nil, false
		}
		if ended, ok = rawjson.RewriteList(nil, choices, endOf); !ok {
			return nil, false
		}
	}
	if !event(said, nil) || ended != nil && !event(ended, nil) {
		return nil, false
	}
	if usage && !rawjson.IsNull(values[1]) && !event([]byte("[]"), values[1]) {
		return nil, false
	}
	return append(events, "data: [DONE]\n\n"...), true
}

// saidOf is a chat's choice with its message as a delta, and no finish reason.
func saidOf(out, choice []byte, _ int) ([]byte, bool) {
	return rawjson.RewriteObject(out, choice, func(name string, value []byte) ([]byte, []byte) {
		switch name {
		case "message":
			if delta, ok := rawjson.RewriteObject(nil, value, numberCalls); ok {
				return []byte("delta"), delta
			}
			return []byte("delta"), []byte("{}")
		case "finish_reason":
			value = []byte("null")
		case "stop_reason":
			return nil, nil
		}
		return []byte(name), value
	})
}

// endOf is a chat's choice with its finish reason only.
func endOf(out, choice []byte, _ int) ([]byte, bool) {
	return rawjson.RewriteObject(out, choice, func(name string, value []byte) ([]byte, []byte) {
		switch name {
		case "index", "finish_reason", "stop_reason":
			return []byte(name), value
		case "message":
			return []byte("delta"), []byte("{}")
		}
		return nil, nil
	})
}

// numberCalls gives a message's tool calls their index in a stream.
func numberCalls(name string, value []byte) ([]byte, []byte) {
	if name != "tool_calls" || rawjson.IsNull(value) {
		return []byte(name), value
	}
	calls, ok := rawjson.RewriteList(nil, value, func(out, call []byte, i int) ([]byte, bool) {
		if at, _ := rawjson.Member(call, "index"); at != nil {
			return append(out, call...), true
		}
		out = strconv.AppendInt(append(out, `{"index":`...), int64(i), 10)
		return append(rawjson.AppendOthers(out, call), '}'), true
	})
	if !ok {
		return []byte(name), value
	}
	return []byte(name), calls
}
