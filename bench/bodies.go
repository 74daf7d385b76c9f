package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strconv"
)

// body is one chat request whose text can be made new in place, without changing its length.
type body struct {
	data []byte
	mark int // where 16 hexadecimal digits may be overwritten; -1: never
}

const bodyCount = 64 // different bodies of a scenario

// buildBodies makes the bodies of a scenario, each of exactly s.Size bytes: a system prompt and a conversation of
// messages of about 2 kB with line breaks, quotes and non-ASCII text, ending with the user.
func buildBodies(s scenario, seed uint64) []body {
	out := make([]body, bodyCount)
	for i := range out {
		out[i] = buildBody(s, rand.New(rand.NewPCG(seed, uint64(i))))
	}
	return out
}

func buildBody(s scenario, rng *rand.Rand) body {
	var b bytes.Buffer
	b.WriteString(`{"model":"m","stream":` + strconv.FormatBool(s.Stream) +
		`,"max_tokens":64,"messages":[{"role":"system","content":"`)
	head := b.Len()
	b.WriteString("0000000000000000 You are a careful assistant. ")
	const tail = `"}]}`
	last := s.Size * 9 / 10 // where the last message begins
	roles := [2]string{"user", "assistant"}
	room := func(limit int) int { return limit - b.Len() - 40 }
	b.Write(text(rng, max(0, min(400, room(last)))))
	for turn := 0; room(last) > 200; turn++ {
		b.WriteString(`"},{"role":"` + roles[turn%2] + `","content":"`)
		b.Write(text(rng, min(2000, room(last))))
	}
	b.WriteString(`"},{"role":"user","content":"`)
	final := b.Len()
	b.WriteString("0000000000000000 ")
	b.Write(text(rng, max(0, s.Size-b.Len()-len(tail))))
	b.WriteString(tail)
	out := body{data: b.Bytes(), mark: -1}
	switch s.Bodies {
	case bodiesNew:
		out.mark = head
	case bodiesGrown:
		out.mark = final
	}
	return out
}

// text returns exactly n bytes of prose that is already escaped for JSON.
func text(rng *rand.Rand, n int) []byte {
	words := []string{
		"the", "router", "sends", "each", "request", "where", "its", "conversation", "lives", "cache", "of", "blocks",
		"func main() {", `\"quoted\"`, `\n\n`, "Zürich", "模型", "return err", "and", "waits",
	}
	out := make([]byte, 0, n)
	for {
		word := words[rng.IntN(len(words))]
		if len(out)+len(word)+1 > n { // no word is cut: half a character or escape would not be JSON
			return append(out, bytes.Repeat([]byte{'.'}, n-len(out))...)
		}
		out = append(append(out, word...), ' ')
	}
}

// renew makes the body differ from all others where its scenario says so.
func (b *body) renew(unique uint64) {
	if b.mark < 0 {
		return
	}
	var raw [8]byte
	for i := range raw {
		raw[i] = byte(unique >> (56 - 8*i))
	}
	hex.Encode(b.data[b.mark:], raw[:])
}

// The canned answers. They look like an engine's, usage included.
const completion = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1790000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"The cache of this conversation lives on the endpoint that served it last, so the next turn goes there too."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":256,"total_tokens":280,"completion_tokens":24,"prompt_tokens_details":{"cached_tokens":128}}}`

const streamChunks = 64 // events of a streamed answer, [DONE] included

// streamEvents returns the events of a streamed answer, each as one chunk's data.
func streamEvents() []string {
	out := make([]string, 0, streamChunks)
	for i := range streamChunks - 1 {
		delta, _ := json.Marshal(map[string]string{"content": "token" + strconv.Itoa(i) + " "})
		out = append(out, `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1790000000,"model":"m","choices":[{"index":0,"delta":`+string(delta)+`,"logprobs":null,"finish_reason":null}]}`+"\n\n")
	}
	return append(out, "data: [DONE]\n\n")
}

// answerLength is the number of body bytes of a correct answer.
func answerLength(stream bool) int64 {
	if !stream {
		return int64(len(completion))
	}
	n := 0
	for _, e := range streamEvents() {
		n += len(e)
	}
	return int64(n)
}
