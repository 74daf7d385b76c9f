package answer

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/warmpath/warmpath/engine/rawjson"
)

// eventClass is the relevant class of a stream's event.
type eventClass uint8

const (
	eventNone      eventClass = iota // no name, or part of the answer
	eventPing                        // keep-alive
	eventAnnounced                   // response.created, response.in_progress, response.queued
	eventStarted                     // Anthropic message_start, with the input's usage
	eventCompleted                   // response.completed, .incomplete, .cancelled: the end, with usage
	eventBroken                      // response.failed: the end, an error
	eventStopped                     // Anthropic message_stop: the end
	eventOpened                      // a part of the answer begins; it has no text yet, but may be the call of a tool
	eventError
)

func (e eventClass) failed() bool { return e == eventError || e == eventBroken }

func (e eventClass) done() bool {
	return e == eventCompleted || e == eventBroken || e == eventStopped
}

// inner reports whether the event's usage is nested in its member "response" or "message".
func (e eventClass) inner() bool {
	return e == eventCompleted || e == eventBroken || e == eventStarted
}

// classOf classifies an event by name: the value of "event:" or of the member "type" (OpenAI Responses API, Anthropic
// Messages API).
func classOf(name []byte) eventClass {
	switch string(name) {
	case "error":
		return eventError
	case "ping", "keepalive":
		return eventPing
	case "response.created", "response.in_progress", "response.queued":
		return eventAnnounced
	case "message_start":
		return eventStarted
	case "response.completed", "response.incomplete", "response.cancelled":
		return eventCompleted
	case "response.failed":
		return eventBroken
	case "message_stop":
		return eventStopped
	case "response.output_item.added", "response.content_part.added", "response.reasoning_part.added",
		"response.reasoning_summary_part.added", "content_block_start":
		return eventOpened
	}
	return eventNone
}

// firstMember classifies an event by the first member of its data: an error as sent by vLLM and SGLang
// ({"error":{...}}), SGLang's flat error ({"object":"error"}), or the type if the event line is absent.
func firstMember(head []byte) eventClass {
	c := rawjson.Cursor{Data: head}
	if !c.Take('{') {
		return eventNone
	}
	key, ok := c.Key()
	if !ok {
		return eventNone
	}
	switch string(key) {
	case "error":
		if c.Space(); c.Pos < len(c.Data) && (c.Data[c.Pos] == '{' || c.Data[c.Pos] == '"') {
			return eventError
		}
	case "type":
		name, _ := c.Str()
		return classOf(name)
	case "object":
		if name, _ := c.Str(); string(name) == "error" {
			return eventError
		}
	}
	return eventNone
}

// OnlyComments reports whether a part of a stream, from the beginning of a line on, is whole lines that are empty or
// comments (HTML standard, section 9.2.6).
func OnlyComments(part []byte) bool { return len(behindComments(part)) == 0 }

// behindComments is what follows the empty lines and the comments at the beginning of a part of a stream.
func behindComments(part []byte) []byte {
	for len(part) > 0 {
		switch part[0] {
		case '\n', '\r':
			part = part[1:]
		case ':':
			end := bytes.IndexAny(part, "\n\r")
			if end < 0 {
				return part
			}
			part = part[end:]
		default:
			return part
		}
	}
	return nil
}

// ErrorAnswer reports whether an answer, or its beginning, is an error, in the shapes of error events. code is the HTTP
// status in it and said its message; 0 and "" if absent.
func ErrorAnswer(body []byte) (code int, said string, ok bool) {
	if firstMember(body) != eventError {
		return 0, "", false
	}
	return errorCode(body), errorMessage(body), true
}

// errorCode finds the HTTP status in an error event: a member "code" that is a number, or one in quotes (LiteLLM,
// ProxyException), or the status for an Anthropic error type (Anthropic API, "Errors"). A quoted name cannot occur
// inside a string, so the message's text cannot mislead.
func errorCode(event []byte) int {
	for rest := event; ; {
		_, after, ok := bytes.Cut(rest, []byte(`"code"`))
		if !ok {
			break
		}
		rest = after
		c := rawjson.Cursor{Data: after}
		if !c.Take(':') {
			continue
		}
		quoted := c.Take('"')
		c.Space()
		n := 0
		for c.Pos < len(c.Data) && c.Data[c.Pos] >= '0' && c.Data[c.Pos] <= '9' && n < 1000 {
			n = 10*n + int(c.Data[c.Pos]-'0')
			c.Pos++
		}
		if n >= 100 && n < 1000 && (!quoted || c.Take('"')) {
			return n
		}
	}
	for _, t := range anthropicErrors {
		if bytes.Contains(event, []byte(t.name)) {
			return t.status
		}
	}
	return 0
}

var anthropicErrors = [...]struct {
	name   string
	status int
}{{`"invalid_request_error"`, 400}, {`"rate_limit_error"`, 429}, {`"overloaded_error"`, 503}}

// longestMessage bounds an error's message.
const longestMessage = 300

// errorMessage is the message of an error event in OpenAI's shape, or in SGLang's flat one.
func errorMessage(event []byte) string {
	inner, _ := rawjson.Member(event, "error")
	if len(inner) == 0 || inner[0] != '{' {
		inner = event
	}
	value, _ := rawjson.Member(inner, "message")
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return shortened(text)
}

// shortened is a message with longestMessage bytes at most, cut between characters.
func shortened(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), longestMessage)], "")
}
