package route

import (
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/kvstream"
)

// kvTokens ties a request to the blocks that its tokens make; it may be over by now.
func (r *Router) kvTokens(ev *KVTokens) {
	k := &r.kv
	if !k.any || len(ev.Tokens) == 0 {
		return
	}
	k.tokens = true
	var key uint64
	block, end := 0, (*kvEnd)(nil)
	if f := r.flight(ev.Lease); f != nil && f.session != "" {
		if f.kv.adapter {
			return // tokens do not say by what number or name the engine's events call it
		}
		if f.kv.tokens = len(ev.Tokens); f.ep.mirror.foreign {
			return // they are only counted, when the answer is over
		}
		key, block = kvKey(f.tenant, f.session), f.ep.kvBlock()
	} else {
		for i := range k.over {
			if e := &k.over[i]; e.lease == ev.Lease && e.key != 0 {
				key, block, end = e.key, e.block, e
			}
		}
		if end == nil || end.adapter || !r.kvCounted(end.ep, len(ev.Tokens), end.usage.PromptTokens) {
			return
		}
	}
	names := kvstream.Names(ev.Tokens, block, ev.Salt, ev.Extra, k.chain[:0])
	k.chain = names
	if key == 0 || len(names) == 0 {
		return
	}
	x := k.ties.make(key)
	if len(x.chain) < len(names) || !slices.Equal(x.chain[:len(names)], names) {
		k.ties.set(x, 0, names)
	}
	for more := k.loose.beyond(x.chain); more != nil; more = k.loose.beyond(x.chain) {
		k.ties.set(x, len(x.chain), more)
	}
	k.own(x)
	if end != nil {
		end.claimed = true
		k.learn(end)
	}
}

// kvCounted compares how many tokens a prompt was told to have with what the engine counted, and reports whether the tokens are to be gone by. A
// tokenizer or a chat template that is not the engine's gives tokens whose blocks the engine never has, and everything would be
// predicted to be gone (TensorRT-LLM issues 13232 and 13798 are about that). So tokens are given up, and it is said, when four
// prompts in a row had another number of them, until eight have the same.
func (r *Router) kvCounted(ep *endpoint, told, counted int) bool {
	m := &ep.mirror
	if told == counted {
		m.strange = 0
		if m.alike = min(m.alike+1, kvHits); m.foreign && m.alike == kvHits {
			m.foreign = false
			r.kvSay(ep, "token ids agree with the engine again")
		}
		return !m.foreign
	}
	m.alike = 0
	if m.strange = min(m.strange+1, kvMisses); !m.foreign && m.strange == kvMisses {
		m.foreign = true
		r.kvSay(ep, fmt.Sprintf("token ids are not gone by: a prompt was told to have %d tokens, the engine counted %d", told, counted))
	}
	return false
}
