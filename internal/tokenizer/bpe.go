package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// noToken is the id of a missing token.
const noToken = int32(-1)

// merge is the result of merging a pair of tokens, with its rank: the lowest is merged first.
type merge struct {
	rank  int32
	token int32
}

// bpe is a byte-level BPE model: immutable once made.
type bpe struct {
	vocab        map[string]int32 // by their bytes
	single       [256]int32       // by byte
	merges       map[uint64]merge // by pairOf
	ignoreMerges bool             // a piece that is a token itself is not split
}

func pairOf(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// newBPE reads the model part of tokenizer.json.
func newBPE(raw json.RawMessage, a *alphabet) (*bpe, map[string]int32, error) {
	var m bpeModel
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	if err := m.supported(); err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	b := &bpe{
		vocab: make(map[string]int32, len(m.Vocab)), merges: make(map[uint64]merge, len(m.Merges)),
		ignoreMerges: m.IgnoreMerges,
	}
	for s, id := range m.Vocab {
		if id < 0 {
			return nil, nil, fmt.Errorf("model.vocab: token %q has the negative id %d", s, id)
		}
		if text, ok := a.bytes(s); ok {
			b.vocab[text] = id
		}
	}
	for c := range b.single {
		b.single[c] = noToken
		if id, ok := b.vocab[string([]byte{byte(c)})]; ok {
			b.single[c] = id
		}
	}
	for rank, raw := range m.Merges {
		left, right, err := mergeParts(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("model.merges[%d]: %w", rank, err)
		}
		l, okL := m.Vocab[left]
		r, okR := m.Vocab[right]
		whole, okW := m.Vocab[left+right]
		if !okL || !okR || !okW {
			return nil, nil, fmt.Errorf("model.merges[%d]: %q and %q, or what they make, are not in the vocabulary",
				rank, left, right)
		}
		// A duplicate pair has its last rank, as in the reference implementation, which fills a map.
		b.merges[pairOf(l, r)] = merge{rank: int32(rank), token: whole}
	}
	return b, m.Vocab, nil
}

// supported rejects features that byte-level BPE of language models does not use.
func (m *bpeModel) supported() error {
	switch {
	case m.Type != "BPE" && m.Type != "":
		return fmt.Errorf("type %q is not supported, only byte-level BPE", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("dropout makes tokens random: not supported")
	case m.ContinuingSubwordPrefix != nil && *m.ContinuingSubwordPrefix != "":
		return fmt.Errorf("continuing_subword_prefix %q is not supported", *m.ContinuingSubwordPrefix)
	case m.EndOfWordSuffix != nil && *m.EndOfWordSuffix != "":
		return fmt.Errorf("end_of_word_suffix %q is not supported", *m.EndOfWordSuffix)
	case m.ByteFallback:
		return errors.New("byte_fallback (SentencePiece BPE, as in Llama 2) is not supported, only byte-level BPE")
	case len(m.Vocab) == 0:
		return errors.New("has no vocabulary")
	case len(m.Merges) > math.MaxInt32:
		return errors.New("has too many merges")
	}
	return nil
}

// mergeParts reads one merge: "left right" in files of tokenizers before 0.20, ["left", "right"] since.
func mergeParts(raw json.RawMessage) (left, right string, err error) {
	var pair []string
	if json.Unmarshal(raw, &pair) == nil {
		if len(pair) != 2 {
			return "", "", fmt.Errorf("has %d parts, not two", len(pair))
		}
		return pair[0], pair[1], nil
	}
	var line string
	if err := json.Unmarshal(raw, &line); err != nil {
		return "", "", errors.New("is neither a pair nor a line")
	}
	left, right, ok := strings.Cut(line, " ")
	if !ok || left == "" || right == "" || strings.Contains(right, " ") {
		return "", "", fmt.Errorf("%q is not two parts with one space between", line)
	}
	return left, right, nil
}

// symbol is a part of a word during merging: a linked list over a slice, so that long words (a base64 text, a row of
// spaces) cost n log n.
type symbol struct {
	token      int32
	prev, next int32 // -1: none
	gone       bool
}

// few is the length up to which scanning all pairs is cheaper than a heap.
const few = 48

// append adds the tokens of one word to out.
func (b *bpe) append(out []int32, word string) []int32 {
	if b.ignoreMerges {
		if id, ok := b.vocab[word]; ok {
			return append(out, id)
		}
	}
	start := len(out)
	for i := range len(word) {
		// bytes without a token are dropped, as in the reference implementation without an unk_token
		if id := b.single[word[i]]; id != noToken {
			out = append(out, id)
		}
	}
	if len(out)-start <= few {
		return out[:start+b.mergeShort(out[start:])]
	}
	return out[:start+b.mergeLong(out[start:])]
}

// mergeShort merges in place and returns the number of tokens left. It keeps the merge of each neighbouring pair and
// scans for the lowest.
func (b *bpe) mergeShort(w []int32) int {
	var best [few]merge
	none := merge{rank: math.MaxInt32}
	look := func(i int) {
		best[i] = none
		if i+1 < len(w) {
			if m, ok := b.merges[pairOf(w[i], w[i+1])]; ok {
				best[i] = m
			}
		}
	}
	for i := range w {
		look(i)
	}
	for {
		at := -1
		low := none.rank
		for i := range w {
			if best[i].rank < low {
				at, low = i, best[i].rank
			}
		}
		if at < 0 {
			return len(w)
		}
		w[at] = best[at].token
		copy(w[at+1:], w[at+2:])
		copy(best[at+1:], best[at+2:len(w)])
		w = w[:len(w)-1]
		look(at)
		if at > 0 {
			look(at - 1)
		}
	}
}
