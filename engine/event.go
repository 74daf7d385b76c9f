package engine

// eventClass says what an event of a stream is, as far as the router cares.
type eventClass uint8

const (
	eventNone      eventClass = iota // no name, or one that means a part of the answer
	eventPing                        // keep-alive
	eventAnnounced                   // response.created, response.in_progress, response.queued
	eventStarted                     // Anthropic message_start, which holds the input's usage
	eventCompleted                   // response.completed, response.incomplete: the end, with usage
	eventBroken                      // response.failed: the end, an error
	eventStopped                     // Anthropic message_stop: the end
	eventError
)

func (e eventClass) failed() bool { return e == eventError || e == eventBroken }

func (e eventClass) done() bool {
	return e == eventCompleted || e == eventBroken || e == eventStopped
}

func (e eventClass) data() bool { return e == eventNone || e == eventCompleted }

// inner reports whether the event's usage is a level deeper, in its member "response" or "message".
func (e eventClass) inner() bool {
	return e == eventCompleted || e == eventBroken || e == eventStarted
}

// classOf classes the name of an event: the value of "event:" or of the member "type" (OpenAI Responses API,
// Anthropic Messages API).
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
	case "response.completed", "response.incomplete":
		return eventCompleted
	case "response.failed":
		return eventBroken
	case "message_stop":
		return eventStopped
	}
	return eventNone
}

// firstMember classes an event by the first member of its data: an error as vLLM and SGLang send it ({"error":{...}}),
// SGLang's flat error ({"object":"error"}), or the type where the event line is left out.
func firstMember(head []byte) eventClass {
	c := cursor{b: head}
	if !c.take('{') {
		return eventNone
	}
	key, ok := c.key()
	if !ok {
		return eventNone
	}
	switch string(key) {
	case "error":
		if c.space(); c.i < len(c.b) && (c.b[c.i] == '{' || c.b[c.i] == '"') {
			return eventError
		}
	case "type":
		name, _ := c.str()
		return classOf(name)
	case "object":
		if name, _ := c.str(); string(name) == "error" {
			return eventError
		}
	}
	return eventNone
}
