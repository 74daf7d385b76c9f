package prompt

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

const (
	maxSources     = 64
	maxBodySources = 32
	maxObjectBytes = 16 << 10 // of a JSON object with an id as a member
)

// Parser reads prompts. It is immutable and safe for concurrent use.
type Parser struct {
	sources, users, parents []compiled
	control                 *compiled // where an action on the conversation stands; nil where there was no place for it
	body                    []path
	echo                    string // see Identity.Echo
}

// compiled is a prepared Source.
type compiled struct {
	name   string // name in the Source
	header string // canonical, "" for a field
	member string // member of the JSON object there, possibly encoded as a string; "" for the whole text
	claude bool   // Claude Code's: see ofAgent and claudeUser
	body   int    // index in Parser.body, when header is ""
}

// path is a field of the body: top, or top.sub.
type path struct{ top, sub string }

func (p *Parser) compile(src Source) (compiled, error) {
	place, member, within := strings.Cut(src.Header+src.Field, "#")
	switch {
	case len(src.Header) > maxNameBytes || len(src.Field) > maxNameBytes:
		return compiled{}, fmt.Errorf("is longer than %d bytes", maxNameBytes)
	case within && member == "":
		return compiled{}, errors.New("names no member after #")
	case src.Header != "":
		if !isHeaderName(place) {
			return compiled{}, errors.New("is not a header name")
		}
		name := canonicalHeader(place)
		return compiled{name: src.Header, header: name, member: member, claude: name == claudeSession && !within}, nil
	}
	at, err := p.place(place)
	return compiled{name: src.Field, body: at, member: member, claude: src.Field == claudeField}, err
}

// place is the index of a field in Parser.body, where it is added.
func (p *Parser) place(field string) (int, error) {
	top, sub, nested := strings.Cut(field, ".")
	f := findField([]byte(top))
	switch {
	case top == "" || (nested && sub == "") || strings.Contains(sub, "."):
		return 0, errors.New("is neither a field nor field.member")
	case nested && f < numFields && (f >= fMessages && f <= fInputIDs):
		return 0, errors.New("is within prompt text")
	}
	at := path{top: top, sub: sub}
	for i := range p.body {
		if p.body[i] == at {
			return i, nil
		}
	}
	if len(p.body) == maxBodySources {
		return 0, fmt.Errorf("is one field too many, at most %d", maxBodySources)
	}
	p.body = append(p.body, at)
	return len(p.body) - 1, nil
}

// watching lists the entries of Parser.body about a top-level member.
type watching struct {
	self int    // index of its own value; -1 for none
	subs uint32 // bit set of entries about its members
}

// watch finds the sources in the top-level member called name, and drops the values of an earlier occurrence.
func (p *Parser) watch(name []byte, ids *[maxBodySources]jsonscan.Value) watching {
	w := watching{self: -1}
	for i := range p.body {
		if b := &p.body[i]; len(b.top) != len(name) || b.top != string(name) {
			continue
		}
		ids[i] = jsonscan.Value{}
		if p.body[i].sub == "" {
			w.self = i
		} else {
			w.subs |= 1 << i
		}
	}
	return w
}

// watchSub finds the entry among subs with this member; -1 when there is none.
func (p *Parser) watchSub(subs uint32, name []byte) int {
	for i := 0; subs != 0; i, subs = i+1, subs>>1 {
		if subs&1 != 0 && p.body[i].sub == string(name) {
			return i
		}
	}
	return -1
}

// speaker is the ids in a request; see Prompt for their meaning.
type speaker struct {
	session, from, user, parent string
	closes                      bool
}

// identify finds the ids of conversation, user and parent.
func (p *Parser) identify(body []byte, ids *[maxBodySources]jsonscan.Value, header func(string) string) (out speaker) {
	for i := range p.sources {
		src := &p.sources[i]
		id, parent := src.find(body, ids, header), ""
		if src.claude && src.header == "" {
			id, parent = claudeUser(id)
		}
		if !isID(id) {
			continue
		}
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		out.session, out.from, out.parent = id, src.name, parent
		if src.claude {
			out.ofAgent(header)
		}
		break
	}
	for i := range p.users {
		if out.session != "" {
			break
		}
		src := &p.users[i]
		id := src.find(body, ids, header)
		if src.claude {
			if session, _ := claudeUser(id); session != "" {
				continue
			}
		}
		if isID(id) {
			out.user = id
			break
		}
	}
	for i := range p.parents {
		if out.parent != "" {
			break
		}
		if id := p.parents[i].find(body, ids, header); isID(id) && id != out.session {
			out.parent = id
		}
	}
	out.closes = p.control != nil && p.control.find(body, ids, nil) == "close"
	return out
}

// HeaderID is the conversation's id that headers name, while the body is not known; "" for none.
func (p *Parser) HeaderID(header func(string) string) string {
	return p.identify(nil, new([maxBodySources]jsonscan.Value), header).session
}

// InHeader reports whether a header names the conversation, so that the body need not be searched.
func (p *Parser) InHeader(header func(string) string) bool {
	for i := range p.sources {
		if src := &p.sources[i]; src.header != "" && isID(src.find(nil, nil, header)) {
			return true
		}
	}
	return false
}

// find is the value at a source; "" for none.
func (src *compiled) find(body []byte, ids *[maxBodySources]jsonscan.Value, header func(string) string) string {
	switch {
	case src.header == "":
		switch v := ids[src.body]; {
		case src.member != "" && v.At.Len() > maxObjectBytes:
		case src.member != "" && v.Kind == jsonscan.String:
			return memberOf([]byte(jsonscan.Decode(body, v.At)), src.member)
		case src.member != "" && v.Kind == jsonscan.Object:
			return memberOf(body[v.At.Start:v.At.End], src.member)
		case v.Kind == jsonscan.String:
			return decodeID(body, v.At)
		case src.claude && v.Kind == jsonscan.Object && v.At.Len() <= MaxIDBytes:
			return string(body[v.At.Start:v.At.End])
		}
	case header == nil:
	case src.member == "":
		return header(src.header)
	default:
		if text := header(src.header); text != "" && len(text) <= maxObjectBytes {
			return memberOf([]byte(text), src.member)
		}
	}
	return ""
}

// isID reports whether s can identify a conversation: not empty, bounded, and valid in a header.
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

// canonicalHeader is net/textproto's canonical form, so that http.Header.Get need not allocate.
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

// decodeID is decode for ids: "" for an invalid one.
func decodeID(body []byte, at jsonscan.Span) string {
	if at.Len() > 6*MaxIDBytes+2 { // every byte written as \u00xx
		return ""
	}
	if id := jsonscan.Decode(body, at); isID(id) {
		return id
	}
	return ""
}

// MaxIDBytes is the length of the longest valid conversation or response id. A longer one counts as absent, so that
// tables of ids are bounded.
const MaxIDBytes = 1024
