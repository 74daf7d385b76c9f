package proxy

import (
	"sync"

	"github.com/warmpath/warmpath/fleet"
)

// mostReporting bounds the servers that are remembered.
const mostReporting = 1024

// reports remembers which servers have reported cached tokens in Responses, whose form demands a number (OpenAI API
// reference, "input_tokens_details"): a server that does not know it writes 0 there, as Ollama 0.33 always does
// (openai/responses.go).
type reports struct {
	mu    sync.Mutex
	found map[string]struct{} // URLs of servers
}

// learnable is the usage that an engine reports, without cached tokens that say nothing of its cache. One that reads no
// cache for a request finds nothing, whatever it has. Of several answers one finds what another has had computed (vLLM
// 0.33.0: 128 of 130 tokens of a new prompt with n 2).
func (c *call) learnable(u fleet.Usage) fleet.Usage {
	if c.Request.ReadsNoCache || c.Prompt.N > 1 {
		u.CachedTokens, u.CachedKnown = 0, false
	}
	return u
}

// read returns a server's usage, whose 0 cached tokens are unknown until the server has reported some. If there is no
// room left, all is learnt anew.
func (p *reports) read(url string, u fleet.Usage) fleet.Usage {
	if !u.CachedKnown {
		return u
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.found[url]
	switch {
	case u.CachedTokens == 0:
		u.CachedKnown = known
	case !known:
		if p.found == nil || len(p.found) >= mostReporting {
			p.found = make(map[string]struct{})
		}
		p.found[url] = struct{}{}
	}
	return u
}
