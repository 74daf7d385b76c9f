package send

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// TensorRT-LLM can be told the conversation of a request, so that it spreads conversations over its own ranks: since
// June 2026 in conversation_params {"conversation_id": "..."}, before in disaggregated_params.conversation_id
// (tensorrt_llm/serve/openai_protocol.py). It rejects unknown members.

const (
	conversationParams = "conversation_params"
	conversationID     = "conversation_id"
	requestType        = "request_type"
)

// Send sends the request and returns when the header of the answer has arrived. An engine that rejects the form of the
// conversation id gets the request again with the older form, then without an id: the client must not see errors caused
// by what the router added. This also holds for a leg: an engine that rejects the body has not begun the leg, and the
// hand-over id is unused.
func (a *Outgoing) Send() (*http.Response, error) {
	res, err := a.sendRanked()
	a.noteStated(res, err)
	for err == nil && a.refusesID(res) {
		res.Body.Close()
		a.Withdraw()
		a.refusedID = a.sentForm
		if res, err = a.sendRanked(); err == nil && res.StatusCode < http.StatusBadRequest {
			a.noteRefusal()
		}
	}
	return res, err
}

// refusesID reports whether the answer rejects the conversation id in a form that the router chose.
func (a *Outgoing) refusesID(res *http.Response) bool {
	switch {
	case a.d.Endpoint.IDForm != fleet.IDAuto:
		return false
	case a.sentForm == fleet.IDParams:
		return refuses(res, conversationParams)
	case a.sentForm == fleet.IDDisagg:
		return refuses(res, conversationID)
	}
	return false
}

// noteRefusal remembers the form of id that the engine rejected, once it has accepted the request without it.
func (a *Outgoing) noteRefusal() {
	p, name, refused := a.s, a.d.Endpoint.Name, a.refusedID
	p.asks.note(name, func(n *askNote) {
		n.refusedID, n.refusedOldID = time.Now(), refused == fleet.IDDisagg
	})
	if refused == fleet.IDDisagg {
		p.log.Info("engine rejects conversation ids in both forms: they are not sent for a while",
			"endpoint", name, "while", askAgain.String())
		return
	}
	p.log.Info("engine rejects conversation_params: conversation ids are sent in disaggregated_params for a while",
		"endpoint", name, "while", askAgain.String())
}

// Gone forgets which forms of ids and ranks an endpoint rejected: its process is gone, and the next may be of another
// version.
func (s *Sender) Gone(endpoint string) {
	s.asks.change(endpoint, func(n *askNote) { n.refusedID, n.refusedOldID, n.fromZero = time.Time{}, false, false })
}

// idForm is the form in which the engine is told the conversation. untells means that the client's conversation_params
// are removed, since the engine does not know them.
func (a *Outgoing) idForm() (form fleet.IDForm, untells bool) {
	form = a.d.Endpoint.IDForm
	switch {
	case form != fleet.IDAuto:
		return form, form == fleet.IDDisagg
	case a.d.Kind != fleet.KindTRTLLM, a.carried(): // what is carried cannot be sent again in another form
		return fleet.IDUnknown, false
	}
	n := a.s.asks.of(a.d.Endpoint.Name)
	refuses := !n.refusedID.IsZero() && time.Since(n.refusedID) < askAgain
	switch {
	case a.refusedID == fleet.IDDisagg || refuses && n.refusedOldID:
		return fleet.IDUnknown, true
	case a.refusedID == fleet.IDParams || refuses:
		return fleet.IDDisagg, true
	}
	return fleet.IDParams, false
}

// tellConversation adds the edits that tell the engine its conversation. An id from the client in the same place is
// kept. For a whole request, disaggregated_params with nothing but an id (as TensorRT-LLM's own router makes them) are
// removed: the engine would take the request for a leg.
func (a *Outgoing) tellConversation(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if c.Body == nil || c.Prompt.InsertAt == 0 || c.API != prompt.Chat && c.API != prompt.Completions {
		return edits
	}
	a.sentForm = fleet.IDUnknown
	params := c.Prompt.Field(disaggregatedParams)
	if params.Len() > 0 && a.d.Leg == fleet.LegUnsplit && carriesIDOnly(c.Body.Bytes[params.Start:params.End]) {
		edits = replace(edits, c.Prompt.SetField(disaggregatedParams, []byte("null")))
	}
	if a.d.Session == "" || c.Request.Class != fleet.Turn {
		return edits
	}
	form, untells := a.idForm()
	at := c.Prompt.Field(conversationParams)
	set := sets(edits, at, conversationParams)
	if untells && !set {
		edits = a.untell(edits, at)
	}
	switch {
	case form == fleet.IDUnknown || set:
	case form == fleet.IDDisagg:
		id := jsonscan.AppendString(nil, a.d.Session)
		if set, ok := a.setInDisagg(edits, conversationID, id, true); ok {
			edits, a.sentForm = set, form
		}
	case at.Len() == 0 || string(c.Body.Bytes[at.Start:at.End]) == "null":
		value := jsonscan.AppendString([]byte(`{"`+conversationID+`":`), a.d.Session)
		edits = append(edits, c.Prompt.SetField(conversationParams, append(value, '}')))
		a.sentForm = form
	default:
		a.sentForm = form
	}
	return edits
}

// untell removes conversation_params from a request to an engine that does not know them.
func (a *Outgoing) untell(edits []prompt.Edit, at jsonscan.Span) []prompt.Edit {
	if span, ok := memberSpan(a.c.Body.Bytes, at, conversationParams); ok {
		return append(edits, prompt.Edit{At: span})
	}
	return edits
}

// setInDisagg sets a member of the disaggregated_params of the request or its leg, where it has some; with keep, unless
// they have that member. done is false where it is not set.
func (a *Outgoing) setInDisagg(
	edits []prompt.Edit,
	name string,
	value []byte,
	keep bool,
) (out []prompt.Edit, done bool) {
	with := func(object []byte, head int) ([]byte, bool) {
		if names, ok := memberNames(object[head:]); keep && (!ok || slices.Contains(names, name)) {
			return nil, false
		}
		out, err := prompt.SetMember(bytes.Clone(object[:head]), object[head:], name, value)
		return out, err == nil
	}
	at := a.c.Prompt.Field(disaggregatedParams)
	for i := range edits {
		head := 0
		switch e := &edits[i]; {
		case at.Len() > 0 && e.At == at:
		case e.Inserts(disaggregatedParams):
			head = len(`"` + disaggregatedParams + `":`)
		default:
			continue
		}
		set, ok := with(edits[i].With, head)
		if ok {
			edits[i].With = set
		}
		return edits, ok
	}
	if at.Len() == 0 {
		return edits, false
	}
	set, ok := with(a.c.Body.Bytes[at.Start:at.End], 0)
	if !ok { // not an object: the engine may report it
		return edits, false
	}
	return append(edits, a.c.Prompt.SetField(disaggregatedParams, set)), true
}

// sets reports whether an edit already sets the member, whose value is at the given place if present.
func sets(edits []prompt.Edit, at jsonscan.Span, name string) bool {
	return slices.ContainsFunc(edits, func(e prompt.Edit) bool { return at.Len() > 0 && e.At == at || e.Inserts(name) })
}

// replace adds an edit, instead of one of the same bytes.
func replace(edits []prompt.Edit, e prompt.Edit) []prompt.Edit {
	for i := range edits {
		if edits[i].At == e.At {
			edits[i] = e
			return edits
		}
	}
	return append(edits, e)
}

// carriesIDOnly reports whether disaggregated_params have a conversation id and otherwise at most a request type.
func carriesIDOnly(object []byte) bool {
	names, ok := memberNames(object)
	return ok && slices.Contains(names, conversationID) &&
		!slices.ContainsFunc(names, func(n string) bool { return n != conversationID && n != requestType })
}

// memberNames lists the members of a JSON object; false when it is none.
func memberNames(object []byte) (names []string, ok bool) {
	var c jsonscan.Cursor
	c.Reset(object)
	if c.Next() != jsonscan.Object {
		return nil, false
	}
	for kind := c.Next(); kind == jsonscan.Key; kind = c.Next() {
		name, _ := c.Raw()
		names = append(names, string(name))
		if !c.Skip(c.Next()) {
			return nil, false
		}
	}
	return names, c.Next() == jsonscan.End
}

// memberSpan is what to cut out of an object to remove a member with its name and one comma, given the place of its
// value. It is empty for an object's only member and for a name written with escapes.
func memberSpan(body []byte, value jsonscan.Span, name string) (jsonscan.Span, bool) {
	if value.Len() == 0 {
		return jsonscan.Span{}, false
	}
	const white = " \t\r\n"
	head := bytes.TrimRight(body[:value.Start], white)
	head, colon := bytes.CutSuffix(head, []byte(":"))
	head, plain := bytes.CutSuffix(bytes.TrimRight(head, white), jsonscan.AppendString(nil, name))
	if !colon || !plain {
		return jsonscan.Span{}, false
	}
	rest := bytes.TrimLeft(body[value.End:], white)
	if len(rest) > 0 && rest[0] == ',' {
		return jsonscan.Span{Start: len(head), End: len(body) - len(rest) + 1}, true
	}
	if before := bytes.TrimRight(head, white); len(before) > 0 && before[len(before)-1] == ',' {
		return jsonscan.Span{Start: len(before) - 1, End: value.End}, true
	}
	return jsonscan.Span{}, false
}
