package answer

import (
	"bytes"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// Counts finds the numbers of tokens in an answer that is written to it in pieces of any size, wherever they stand.
// They are far from its end where much comes behind or between them: in SGLang's meta_info log probabilities, behind
// the usage of vLLM's chats prompt_logprobs and prompt_token_ids, behind that of llama.cpp's embeddings the vectors. It
// is for APIs whose answers have text in strings only: a name in quotes that are not escaped, with a colon behind, is a
// member's.
type Counts struct {
	API string // one of the API words; set before the first Write

	f     figures
	found bool
	carry [longestCount]byte // the end of what was written
	held  int
}

// longestCount is more than a member with a number takes: `"completion_tokens": 134217728,`.
const longestCount = 48

// Reset prepares for another answer.
func (k *Counts) Reset(api string) { k.API, k.found, k.held = api, false, 0 }

// reads reports whether the API's answers are read. Those of others can have members that are the model's or the
// client's (arguments of tools, schemas), or are no JSON.
func (k *Counts) reads() bool {
	switch k.API {
	case APIChat, APICompletions, APIEmbeddings, APIGenerate:
		return true
	}
	return false
}

// Write reads the next bytes. It keeps no reference to p.
func (k *Counts) Write(p []byte) {
	if !k.reads() {
		return
	}
	if k.held > 0 { // members that the last piece begins and this one ends
		var both [2 * longestCount]byte
		n := copy(both[:], k.carry[:k.held])
		n += copy(both[n:], p[:min(len(p), longestCount)])
		k.read(both[:n], k.held)
	}
	k.read(p, 0)
	if len(p) < longestCount {
		keep := min(k.held, longestCount-len(p))
		copy(k.carry[:], k.carry[k.held-keep:k.held])
		k.held = keep
		p = p[:copy(k.carry[keep:], p)]
		k.held += len(p)
		return
	}
	k.held = copy(k.carry[:], p[len(p)-longestCount:])
}

// read takes the members in b. With a border, only those that begin before it and end behind it.
func (k *Counts) read(b []byte, border int) {
	const suffix = `_tokens"`
	for from := 0; ; {
		i := bytes.Index(b[from:], []byte(suffix))
		if i < 0 {
			return
		}
		from += i + len(suffix)
		fig, name := countFigure(b[:from-1])
		c := rawjson.Cursor{Data: b[from:]}
		if fig == noFigure || !c.Take(':') {
			continue
		}
		n, ok := c.Count()
		end := from + c.Pos
		if !ok || end >= len(b) { // what is cut off may be more digits
			continue
		}
		if begin := from - 1 - name - 1; border > 0 && (begin >= border || end < border) {
			continue
		}
		k.add(fig, n)
	}
}

func (k *Counts) add(fig figure, n int64) {
	if !k.found {
		k.f, k.found = noFigures(), true
	}
	if k.API == APIGenerate { // a list of answers; of others the last counts, which is the answer's own
		n += max(k.f[fig], 0)
	}
	k.f[fig] = n
}

// countFigure is the figure whose name, in quotes of which the second is cut off, ends b, and the length of the name.
func countFigure(b []byte) (fig figure, name int) {
	for _, f := range [...]string{`"prompt_tokens`, `"completion_tokens`, `"cached_tokens`} {
		if bytes.HasSuffix(b, []byte(f)) {
			return memberFigure([]byte(f[1:])), len(f) - 1
		}
	}
	return noFigure, 0
}

// Usage is what was found; ok is false if that is no usage.
func (k *Counts) Usage() (u fleet.Usage, ok bool) {
	if !k.found {
		return u, false
	}
	return build(k.f[promptTokens], k.f[flatCached], k.f[completionTokens])
}
