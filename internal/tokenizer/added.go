package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// matcher finds added tokens in text, leftmost first, then longest. It is immutable once made.
type matcher struct {
	starts [256]bool
	nodes  []node // a tree of bytes; 0 is the root
	tokens []addedToken
}

type node struct {
	next  map[byte]int32
	token int32 // 1 + index into tokens; 0: none ends here
}

func newMatcher(tokens []addedToken) *matcher {
	m := &matcher{nodes: make([]node, 1), tokens: tokens}
	for i := range tokens {
		content := tokens[i].Content
		m.starts[content[0]] = true
		at := int32(0)
		for j := range len(content) {
			next, ok := m.nodes[at].next[content[j]]
			if !ok {
				next = int32(len(m.nodes))
				m.nodes = append(m.nodes, node{})
				if m.nodes[at].next == nil {
					m.nodes[at].next = make(map[byte]int32)
				}
				m.nodes[at].next[content[j]] = next
			}
			at = next
		}
		m.nodes[at].token = int32(i) + 1
	}
	return m
}

// at is the longest token that begins at i; nil for none.
func (m *matcher) at(s string, i int) *addedToken {
	var found *addedToken
	at := int32(0)
	for ; i < len(s); i++ {
		next, ok := m.nodes[at].next[s[i]]
		if !ok {
			break
		}
		at = next
		if n := m.nodes[at].token; n > 0 {
			found = &m.tokens[n-1]
		}
	}
	return found
}

// sections passes the parts of s to yield in order: text, or a token with its text. The rules and their order are those
// of AddedVocabulary::find_matches in huggingface/tokenizers (added_vocabulary.rs, 0.23).
func (m *matcher) sections(s string, yield func(text string, token *addedToken)) {
	if len(m.tokens) == 0 {
		if s != "" {
			yield(s, nil)
		}
		return
	}
	done := 0
	for i := 0; i < len(s); {
		if !m.starts[s[i]] {
			i++
			continue
		}
		tok := m.at(s, i)
		if tok == nil {
			i++
			continue
		}
		start, end := i, i+len(tok.Content)
		i = end
		if tok.SingleWord && (endsInWord(s[:start]) || beginsWithWord(s[end:])) {
			continue
		}
		if tok.Lstrip {
			start = max(done, len(strings.TrimRightFunc(s[:start], unicode.IsSpace)))
		}
		if tok.Rstrip {
			end = len(s) - len(strings.TrimLeftFunc(s[end:], unicode.IsSpace))
		}
		if done < start {
			yield(s[done:start], nil)
		}
		yield(s[start:end], tok)
		done = end
	}
	if done < len(s) {
		yield(s[done:], nil)
	}
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func beginsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode Technical Standard 18, annex C.
func isWord(r rune) bool {
	return unicode.IsLetter(r) ||
		unicode.In(r, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Join_Control)
}
