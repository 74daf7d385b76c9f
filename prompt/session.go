package prompt

import (
	"errors"
	"fmt"
	"strings"
)

// Source is one place a conversation id may be found in: a header or a field of the body, never both.
type Source struct {
	Header string // name of a request header, in any case
	Field  string // name of a top-level field, or of a member of a top-level object: "metadata.session_id"
}

// DefaultSources are the places conversation ids are sent in, the surest first: TensorRT-LLM's conversation_params,
// the headers of TensorRT-LLM, llm-d, OpenCode, NeMo, Claude Code, Codex, Dynamo, SMG, LiteLLM, Olla, Bifrost and
// AIBrix, then the fields of OpenAI (prompt_cache_key, conversation), OpenRouter and LiteLLM. Each call returns a new
// slice.
func DefaultSources() []Source {
	return []Source{
		{Field: "conversation_params.conversation_id"},
		{Header: "X-Session-ID"},
		{Header: "X-Correlation-ID"},
		{Header: "X-Session-Affinity"},
		{Header: "X-Multi-Turn-Session-ID"},
		{Header: "x-claude-code-session-id"},
		{Header: "session-id"},
		{Header: "session_id"},
		{Header: "thread-id"},
		{Header: "X-Dynamo-Session-ID"},
		{Header: "X-SMG-Routing-Key"},
		{Header: "x-litellm-session-id"},
		{Header: "X-Olla-Session-ID"},
		{Header: "x-bf-session-id"},
		{Header: "x-aibrix-session-key"},
		{Field: "prompt_cache_key"},
		{Field: "session_id"},
		{Field: "conversation"},
		{Field: "conversation.id"},
		{Field: "metadata.session_id"},
		{Field: "litellm_session_id"},
		{Field: "disaggregated_params.conversation_id"},
	}
}

const (
	maxSources     = 64
	maxBodySources = 16
)

// Parser reads prompts. It never changes once made and may be used by many goroutines at once.
type Parser struct {
	sources []compiled
	body    []path
}

// compiled is a Source ready for use.
type compiled struct {
	name   string // as the Source has it
	header string // canonical, "" for a field
	body   int    // index in Parser.body, when header is ""
}

// path is a field of the body: top, or top.sub.
type path struct{ top, sub string }

// NewParser compiles the places to look for conversation ids in, in order; nil means DefaultSources, an empty slice
// none. At most 64, of which 16 fields.
func NewParser(sources []Source) (*Parser, error) {
	if sources == nil {
		sources = DefaultSources()
	}
	if len(sources) > maxSources {
		return nil, fmt.Errorf("prompt: %d session sources, at most %d", len(sources), maxSources)
	}
	p := &Parser{}
	for _, src := range sources {
		c, err := p.compile(src)
		if err != nil {
			return nil, fmt.Errorf("prompt: session source %w", err)
		}
		p.sources = append(p.sources, c)
	}
	return p, nil
}

func (p *Parser) compile(src Source) (compiled, error) {
	switch {
	case (src.Header == "") == (src.Field == ""):
		return compiled{}, errors.New("must name a header or a field")
	case len(src.Header) > maxNameBytes || len(src.Field) > maxNameBytes:
		return compiled{}, fmt.Errorf("has a name longer than %d bytes", maxNameBytes)
	case src.Header != "":
		if !isHeaderName(src.Header) {
			return compiled{}, fmt.Errorf("%q is not a header name", src.Header)
		}
		return compiled{name: src.Header, header: canonicalHeader(src.Header)}, nil
	}
	top, sub, nested := strings.Cut(src.Field, ".")
	f := findField([]byte(top))
	switch {
	case top == "" || (nested && sub == "") || strings.Contains(sub, "."):
		return compiled{}, fmt.Errorf("%q is neither a field nor field.member", src.Field)
	case nested && f < numFields && (f >= fMessages && f <= fInputIDs):
		return compiled{}, fmt.Errorf("%q is within prompt text", src.Field)
	}
	at := path{top: top, sub: sub}
	for i := range p.body {
		if p.body[i] == at {
			return compiled{name: src.Field, body: i}, nil
		}
	}
	if len(p.body) == maxBodySources {
		return compiled{}, fmt.Errorf("%q is one field too many, at most %d", src.Field, maxBodySources)
	}
	p.body = append(p.body, at)
	return compiled{name: src.Field, body: len(p.body) - 1}, nil
}

// watching says which entries of Parser.body a top-level member is about.
type watching struct {
	self int    // its own value, -1 for none
	subs uint32 // bit set of entries about its members
}

// watch finds the sources within the top-level member called name, and forgets what an earlier one of that name gave.
func (p *Parser) watch(name []byte, ids *[maxBodySources]value) watching {
	w := watching{self: -1}
	for i := range p.body {
		if b := &p.body[i]; len(b.top) != len(name) || b.top != string(name) {
			continue
		}
		ids[i] = value{}
		if p.body[i].sub == "" {
			w.self = i
		} else {
			w.subs |= 1 << i
		}
	}
	return w
}

// watchSub finds the entry among subs whose member is called name, -1 when there is none.
func (p *Parser) watchSub(subs uint32, name []byte) int {
	for i := 0; subs != 0; i, subs = i+1, subs>>1 {
		if subs&1 != 0 && p.body[i].sub == string(name) {
			return i
		}
	}
	return -1
}

// identify finds the conversation id.
func (p *Parser) identify(out *Prompt, body []byte, ids *[maxBodySources]value, header func(string) string) {
	for i := range p.sources {
		src := &p.sources[i]
		id := ""
		switch {
		case src.header == "":
			if v := ids[src.body]; v.kind == String {
				id = decodeID(body, v.at)
			}
		case header != nil:
			id = header(src.header)
		}
		if isID(id) {
			out.Session, out.SessionFrom = id, src.name
			return
		}
	}
}

// isID reports whether s can stand for a conversation: not empty, bounded, and fit to be echoed in a header.
func isID(s string) bool {
	if s == "" || len(s) > MaxIDBytes {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// isHeaderName reports whether s is a token of RFC 9110 section 5.6.2.
func isHeaderName(s string) bool {
	for i := range len(s) {
		b := s[i]
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return s != ""
}

// canonicalHeader writes a header name as net/textproto does, so that http.Header.Get need not allocate.
func canonicalHeader(s string) string {
	out := []byte(s)
	upper := true
	for i, b := range out {
		switch {
		case upper && b >= 'a' && b <= 'z':
			out[i] = b - 'a' + 'A'
		case !upper && b >= 'A' && b <= 'Z':
			out[i] = b - 'A' + 'a'
		}
		upper = b == '-'
	}
	return string(out)
}
