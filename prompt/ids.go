package prompt

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Source is a possible place of an id: a header or a field of the body.
type Source struct {
	Header string // name of a request header, in any case
	Field  string // name of a top-level field, or of a member of a top-level object: "metadata.session_id"
	// Either may end in "#member": the id is that member of the JSON object there, which may be encoded as a string.
}

// String is the source as in the configuration: "header:NAME" or "field:NAME".
func (s Source) String() string {
	if s.Header != "" {
		return "header:" + s.Header
	}
	return "field:" + s.Field
}

// ParseSource parses "header:NAME" or "field:NAME".
func ParseSource(text string) (Source, error) {
	kind, name, _ := strings.Cut(text, ":")
	switch name = strings.TrimSpace(name); {
	case name == "":
	case kind == "header":
		return Source{Header: name}, nil
	case kind == "field":
		return Source{Field: name}, nil
	}
	return Source{}, fmt.Errorf("has %q, which is neither header:NAME nor field:NAME", text)
}

// Identity lists the places of ids in a request. Each list is searched in order; the first entry with an id counts.
type Identity struct {
	// IDs are the places of conversation ids, each header:NAME or field:NAME, where a field is a member of the body or
	// member.member; with #NAME the id is a member of the JSON object there, which may be encoded as a string. A list
	// replaces the default, which docs/conversations.md gives; an empty list means none.
	IDs []string `yaml:"ids"`
	// Users are the places of user ids. A user id identifies a conversation when nothing else does, as long as the user
	// has one at a time.
	Users []string `yaml:"users"`
	// Parents are the places where a sub-agent's conversation names the one that started it.
	Parents []string `yaml:"parents"`
	// Echo is the header in which answers return the conversation's id, the client's own or a minted one, for clients
	// to send back. Empty means X-Session-Id if ids include that, else the first header in ids.
	Echo string `yaml:"echo"`
}

// WithDefaults fills in lists that are nil.
func (c Identity) WithDefaults() Identity {
	set := func(list *[]string, sources []Source) {
		if *list != nil {
			return
		}
		for _, s := range sources {
			*list = append(*list, s.String())
		}
	}
	set(&c.IDs, DefaultSources())
	set(&c.Users, DefaultUsers())
	set(&c.Parents, DefaultParents())
	return c
}

// Validate reports what Parser would.
func (c Identity) Validate() error {
	_, err := c.Parser()
	return err
}

// Parser returns a parser for these places. Errors name the list.
func (c Identity) Parser() (*Parser, error) {
	c = c.WithDefaults()
	p := &Parser{}
	var faults []error
	for _, list := range []struct {
		name  string
		texts []string
		into  *[]compiled
	}{{"ids", c.IDs, &p.sources}, {"users", c.Users, &p.users}, {"parents", c.Parents, &p.parents}} {
		if len(list.texts) > maxSources {
			faults = append(faults, fmt.Errorf("prompt: %s has %d entries, at most %d",
				list.name, len(list.texts), maxSources))
			continue
		}
		for _, text := range list.texts {
			src, err := ParseSource(text)
			if err == nil {
				var compiled compiled
				if compiled, err = p.compile(src); err == nil {
					*list.into = append(*list.into, compiled)
					continue
				}
				err = fmt.Errorf("has %q, which %w", text, err)
			}
			faults = append(faults, fmt.Errorf("prompt: %s %w", list.name, err))
		}
	}
	if c.Echo != "" && (len(c.Echo) > maxNameBytes || !isHeaderName(c.Echo)) {
		faults = append(faults, fmt.Errorf("prompt: echo is %q, which is not a header name", c.Echo))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	p.echo = p.echoes(c.Echo)
	if control, err := p.compile(Source{Field: sessionControl}); err == nil {
		p.control = &control
	}
	return p, nil
}

// defaultEcho is the header in which the router returns a conversation's id, unless ids use other headers only.
const defaultEcho = "X-Session-Id"

// echoes is the header in which an id is returned: the configured one, else one that ids are read from.
func (p *Parser) echoes(stated string) string {
	if stated != "" {
		return canonicalHeader(stated)
	}
	first := ""
	for i := range p.sources {
		switch src := &p.sources[i]; {
		case src.header == "" || src.member != "":
		case src.header == defaultEcho:
			return defaultEcho
		case first == "":
			first = src.header
		}
	}
	if first == "" { // ids come from bodies only, so any header is free
		return defaultEcho
	}
	return first
}

// Echo is the header in which answers return the conversation's id, in canonical form.
func (p *Parser) Echo() string { return p.echo }

// DefaultSources are the default places of conversation ids, the most reliable first: TensorRT-LLM's
// conversation_params and its older disaggregated_params.conversation_id, the headers of TensorRT-LLM, llm-d, OpenCode,
// NeMo, Claude Code, Codex, Dynamo, SMG, SGLang, LiteLLM, Olla, Bifrost, AIBrix, Open WebUI and llama.cpp, then the
// fields of OpenAI (prompt_cache_key, conversation), OpenRouter, LiteLLM, vLLM, SGLang, Claude Code and Dynamo. Codex's
// thread precedes its session, which all threads of one run share (Dynamo, pull request 12331). Of metadata.user_id
// only the session counts (see claudeUser). llm-d's x-session-token is excluded because it names an endpoint, SGLang's
// rid because it names a request. Each call returns a new slice.
func DefaultSources() []Source {
	return []Source{
		{Field: "conversation_params.conversation_id"},
		{Field: "disaggregated_params.conversation_id"},
		{Header: "X-Session-ID"},
		{Header: "X-Correlation-ID"},
		{Header: "X-Session-Affinity"},
		{Header: "X-Multi-Turn-Session-ID"},
		{Header: "x-claude-code-session-id"},
		{Header: "thread-id"},
		{Header: "thread_id"},
		{Header: codexMetadata + "#thread_id"},
		{Field: "client_metadata.thread_id"},
		{Field: "client_metadata." + codexMetadata + "#thread_id"},
		{Header: "session-id"},
		{Header: "session_id"},
		{Header: "X-Dynamo-Session-ID"},
		{Header: "X-SMG-Routing-Key"},
		{Header: "X-SGL-Routing-Key"},
		{Header: "x-litellm-session-id"},
		{Header: "X-Olla-Session-ID"},
		{Header: "x-bf-session-id"},
		{Header: "x-aibrix-session-key"},
		{Header: "X-OpenWebUI-Chat-Id"},
		{Header: "X-Conversation-Id"},
		{Header: "x-opencode-session"},
		{Field: "prompt_cache_key"},
		{Field: "session_id"},
		{Field: "conversation"},
		{Field: "conversation.id"},
		{Field: "conversation_id"},
		{Field: "metadata.session_id"},
		{Field: "metadata.conversation_id"},
		{Field: "metadata.thread_id"},
		{Field: "metadata.user_id"},
		{Field: "litellm_session_id"},
		{Field: "session_params.session_id"},
		{Field: "session_params.id"},
		{Field: "nvext.session_control#session_id"},
	}
}

// DefaultUsers are the default places of user ids: OpenAI's fields, Anthropic's metadata.user_id when it contains no
// session, and those of the vLLM router and of Open WebUI.
func DefaultUsers() []Source {
	return []Source{
		{Field: "safety_identifier"},
		{Field: "user"},
		{Field: "metadata.user_id"},
		{Field: "user_id"},
		{Header: "X-User-ID"},
		{Header: "X-OpenWebUI-User-Id"},
	}
}

// DefaultParents are those of OpenCode, Dynamo and Codex. Claude Code's agents are recognised without an entry.
func DefaultParents() []Source {
	return []Source{
		{Header: "x-parent-session-id"},
		{Header: "X-Dynamo-Parent-Session-ID"},
		{Header: "x-codex-parent-thread-id"},
		{Header: codexMetadata + "#parent_thread_id"},
		{Field: "client_metadata.x-codex-parent-thread-id"},
		{Field: "client_metadata." + codexMetadata + "#parent_thread_id"},
	}
}

// sessionControl is the action of Dynamo's session control in a body, before it had headers: bind, open or close.
const sessionControl = "nvext.session_control#action"

// codexMetadata is Codex's description of a turn, a JSON object as a string: a header, and since pull request 27122 a
// member of client_metadata that will replace the headers.
const codexMetadata = "x-codex-turn-metadata"

// Claude Code. All agents of a session send its id; a sub-agent also sends its own id, and that of the sub-agent that
// started it unless that was the main one (anthropics/claude-code issue 49204).
const (
	claudeSession = "X-Claude-Code-Session-Id"
	claudeAgent   = "X-Claude-Code-Agent-Id"
	claudeParent  = "X-Claude-Code-Parent-Agent-Id"
	claudeField   = "metadata.user_id"
)

// ofAgent narrows a session of Claude Code to the agent of the request.
func (p *speaker) ofAgent(header func(string) string) {
	if header == nil {
		return
	}
	session, agent := p.session, header(claudeAgent)
	if !isID(agent) || !isID(session+"/"+agent) {
		return
	}
	p.session, p.parent = session+"/"+agent, session
	if parent := header(claudeParent); isID(parent) && isID(session+"/"+parent) && parent != agent {
		p.parent = session + "/" + parent
	}
}

// claudeUser extracts the session from Claude Code's metadata.user_id: user_HASH_account_UUID_session_UUID, or since
// 2.1.78 a JSON object as a string, with session_id and for some agents parent_session_id. Both are "" for a plain user
// id.
func claudeUser(user string) (session, parent string) {
	if !strings.HasPrefix(user, "{") {
		at := strings.LastIndex(user, "_session_")
		if at < 0 {
			return "", ""
		}
		return user[at+len("_session_"):], ""
	}
	found := membersOf([]byte(user), "session_id", "parent_session_id")
	session, parent = found[0], found[1]
	if !isID(parent) || parent == session {
		parent = ""
	}
	return session, parent
}

// memberOf is a string member of the JSON object in text; "" for none.
func memberOf(text []byte, name string) string { return membersOf(text, name, "")[0] }

// membersOf finds two members of the JSON object in text; both are "" if it is not one.
func membersOf(text []byte, first, second string) (found [2]string) {
	var c jsonscan.Cursor
	c.Reset(text)
	if c.Next() != jsonscan.Object {
		return found
	}
	for c.Next() == jsonscan.Key {
		name, _ := c.Raw()
		kind := c.Next()
		if kind == jsonscan.String {
			switch string(name) {
			case first:
				found[0] = jsonscan.Decode(c.Data(), c.At())
			case second:
				found[1] = jsonscan.Decode(c.Data(), c.At())
			}
		}
		if !c.Skip(kind) {
			return [2]string{}
		}
	}
	if c.Next() != jsonscan.End {
		return [2]string{}
	}
	return found
}
