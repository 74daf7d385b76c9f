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

// labelBlocks tells vLLM the conversation if the client did not. vLLM adds the id to the KV events of the blocks that
// it stores (seen in 0.32), and does nothing else with it.
func (a *Outgoing) labelBlocks(h http.Header) {
	name := a.s.cfg.SessionHeader
	if name == "" || a.d.Kind != fleet.KindVLLM || a.d.Session == "" || a.c.Request.Class != fleet.Turn ||
		Named(h).Get(name) != "" {
		return
	}
	// Engines read header bytes beyond ASCII as ISO 8859-1, and would report another id.
	if httpguts.ValidHeaderFieldValue(a.d.Session) &&
		!strings.ContainsFunc(a.d.Session, func(r rune) bool { return r >= utf8.RuneSelf }) {
		h[name] = []string{a.d.Session}
	}
}

// tellPlaced reports the sent request for the lookup of its tokens.
func (a *Outgoing) tellPlaced(sent *body.Payload) {
	c := a.c
	if a.s.placed == nil || c.Request.Class != fleet.Turn || c.API != prompt.Chat && c.API != prompt.Completions {
		return
	}
	at := c.Prompt.Field("prompt_token_ids") // beside the messages of a chat, as TensorRT-LLM's routers hand it on
	ids := c.Request.PromptTokens > 0 || at.Len() > 0 && c.Body.Bytes[at.Start] == '['
	a.s.placed(a.d, ids, func(most int) *body.Kept { return sent.Keep(most, a.s.bodies) })
}
