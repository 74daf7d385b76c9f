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

// TensorRT-LLM can be told the conversation of a request, so that it spreads it over its own ranks: since June 2026 in
// conversation_params {"conversation_id": "..."}, before in disaggregated_params.conversation_id (tensorrt_llm/serve/openai_protocol.py).
// It refuses members that it does not know.

const (
	conversationParams = "conversation_params"
	conversationID     = "conversation_id"
	requestType        = "request_type"
)

// Send passes the request on and returns when the header of the answer has come. An engine that does not know the form in which it is told
// the conversation gets the request once more in the older form, and then without: the client is not to suffer for what the router told. So
// does the engine of a leg: what it refuses when it reads the body it has not begun, and the id of the hand-over is still unused.
func (a *Outgoing) Send() (*http.Response, error) {
	res, err := a.sendAsking()
	a.noteStated(res, err)
	for err == nil && a.refusesID(res) {
		res.Body.Close()
		a.Withdraw()
		a.refusedID = a.told
		if res, err = a.sendAsking(); err == nil && res.StatusCode < http.StatusBadRequest {
			a.noteRefusal()
		}
	}
	return res, err
}

// refusesID reports whether the answer refuses what the engine was told, in a form that was the router's choice.
func (a *Outgoing) refusesID(res *http.Response) bool {
	switch {
	case a.d.Endpoint.IDForm != fleet.IDAuto:
		return false
	case a.told == fleet.IDParams:
		return refuses(res, conversationParams)
	case a.told == fleet.IDDisagg:
		return refuses(res, conversationID)
	}
	return false
}

// noteRefusal remembers which form the engine refused, when it has taken the request without.
func (a *Outgoing) noteRefusal() {
	p, name, refused := a.s, a.d.Endpoint.Name, a.refusedID
	p.asks.note(name, func(n *askNote) {
		n.refusedID, n.refusedOldID = time.Now(), refused == fleet.IDDisagg
	})
	if refused == fleet.IDDisagg {
		p.log.Info("engine refuses conversation ids in either form: it is not told conversations for a while", "endpoint", name, "while", askAgain.String())
		return
	}
	p.log.Info("engine refuses conversation_params: it is told conversations in disaggregated_params for a while", "endpoint", name, "while", askAgain.String())
}

// Gone forgets which forms of ids an endpoint refused: the process behind it is gone, and the next may be of another version.
func (s *Sender) Gone(endpoint string) {
	s.asks.change(endpoint, func(n *askNote) { n.refusedID, n.refusedOldID = time.Time{}, false })
}

// idForm is the form in which the engine is told the conversation; untells says that what the client put into conversation_params goes,
// since the engine does not know them.
func (a *Outgoing) idForm() (form fleet.IDForm, untells bool) {
	form = a.d.Endpoint.IDForm
	switch {
	case form != fleet.IDAuto:
		return form, form == fleet.IDDisagg
	case a.d.Kind != fleet.KindTRTLLM, a.carried(): // what is carried cannot be sent again in another form
		return fleet.IDUntold, false
	}
	n := a.s.asks.of(a.d.Endpoint.Name)
	refuses := !n.refusedID.IsZero() && time.Since(n.refusedID) < askAgain
	switch {
	case a.refusedID == fleet.IDDisagg || refuses && n.refusedOldID:
		return fleet.IDUntold, true
	case a.refusedID == fleet.IDParams || refuses:
		return fleet.IDDisagg, true
	}
	return fleet.IDParams, false
}

// tellConversation adds to the edits of a request those that tell the engine its conversation. What the client says in the same
// place stays as it is. disaggregated_params that hold nothing but an id (as TensorRT-LLM's own router makes them up to carry
// one) would make an engine think that the request is split: when it is not, they go.
func (a *Outgoing) tellConversation(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if c.Body == nil || c.Prompt.InsertAt == 0 || c.API != prompt.Chat && c.API != prompt.Completions {
		return edits
	}
	a.told = fleet.IDUntold
	params := c.Prompt.Field(disaggregatedParams)
	if params.Len() > 0 && a.d.Leg == fleet.LegWhole && carriesIDOnly(c.Body.Bytes[params.Start:params.End]) {
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
	case form == fleet.IDUntold || set:
	case form == fleet.IDDisagg:
		edits = a.tellInDisagg(edits)
	case at.Len() == 0 || string(c.Body.Bytes[at.Start:at.End]) == "null":
		value := jsonscan.AppendString([]byte(`{"`+conversationID+`":`), a.d.Session)
		edits = append(edits, c.Prompt.SetField(conversationParams, append(value, '}')))
		a.told = form
	default:
		a.told = form
	}
	return edits
}

// untell takes conversation_params out of a request to an engine that does not know them.
func (a *Outgoing) untell(edits []prompt.Edit, at jsonscan.Span) []prompt.Edit {
	if span, ok := memberSpan(a.c.Body.Bytes, at, conversationParams); ok {
		return append(edits, prompt.Edit{At: span})
	}
	return edits
}

// tellInDisagg puts the id into the disaggregated_params that the request, or its leg, has. One without them is given none.
func (a *Outgoing) tellInDisagg(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	id := jsonscan.AppendString(nil, a.d.Session)
	with := func(object []byte, head int) ([]byte, bool) {
		if names, ok := memberNames(object[head:]); !ok || slices.Contains(names, conversationID) {
			return nil, false
		}
		out, err := prompt.SetMember(bytes.Clone(object[:head]), object[head:], conversationID, id)
		return out, err == nil
	}
	at := c.Prompt.Field(disaggregatedParams)
	inserted := append(jsonscan.AppendString(nil, disaggregatedParams), ':')
	for i := range edits {
		head := 0
		switch e := &edits[i]; {
		case at.Len() > 0 && e.At == at:
		case e.At.Len() == 0 && bytes.HasPrefix(e.With, inserted):
			head = len(inserted)
		default:
			continue
		}
		if out, ok := with(edits[i].With, head); ok {
			edits[i].With, a.told = out, fleet.IDDisagg
		}
		return edits
	}
	if at.Len() > 0 {
		if out, ok := with(c.Body.Bytes[at.Start:at.End], 0); ok {
			a.told = fleet.IDDisagg
			return append(edits, c.Prompt.SetField(disaggregatedParams, out))
		}
	}
	return edits
}

// sets reports whether an edit sets a member already, whose value is at a place if it is there.
func sets(edits []prompt.Edit, at jsonscan.Span, name string) bool {
	inserted := append(jsonscan.AppendString(nil, name), ':')
	return slices.ContainsFunc(edits, func(e prompt.Edit) bool {
		return at.Len() > 0 && e.At == at || e.At.Len() == 0 && bytes.HasPrefix(e.With, inserted)
	})
}

// replace adds an edit, in place of one of the same bytes.
func replace(edits []prompt.Edit, e prompt.Edit) []prompt.Edit {
	for i := range edits {
		if edits[i].At == e.At {
			edits[i] = e
			return edits
		}
	}
	return append(edits, e)
}

// carriesIDOnly reports whether disaggregated_params hold a conversation's id and otherwise at most a request type.
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

// memberSpan is what has to be cut out of an object for a member, whose value is at a place, to be gone: with its name and one
// comma. A member that is alone, or whose name is written with escapes, stays.
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
