package send

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/prompt"
)

// labelBlocks tells vLLM the conversation where the client did not: it puts the id on the KV events of the blocks that it stores (seen in
// 0.32), and does nothing else with it.
func (a *Outgoing) labelBlocks(h http.Header) {
	name := a.s.cfg.SessionHeader
	if name == "" || a.d.Kind != fleet.KindVLLM || a.d.Session == "" || a.c.Request.Class != fleet.Turn || h.Get(name) != "" {
		return
	}
	// Beyond ASCII engines take the bytes of a header for another text (ISO 8859-1), and would label with that.
	if httpguts.ValidHeaderFieldValue(a.d.Session) && !strings.ContainsFunc(a.d.Session, func(r rune) bool { return r >= utf8.RuneSelf }) {
		h.Set(name, a.d.Session)
	}
}

// tellPlaced tells who wants tokens what the engine has been sent.
func (a *Outgoing) tellPlaced(body *body.Payload) {
	c := a.c
	if a.s.placed == nil || c.Request.Class != fleet.Turn || c.API != prompt.Chat && c.API != prompt.Completions {
		return
	}
	at := c.Prompt.Field("prompt_token_ids") // beside the messages of a chat, as TensorRT-LLM's routers hand it on
	ids := c.Request.PromptTokens > 0 || at.Len() > 0 && c.Body.Bytes[at.Start] == '['
	a.s.placed(a.d, ids, body.Copy)
}
