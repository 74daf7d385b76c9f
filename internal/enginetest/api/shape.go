// Package api implements the engines' APIs: the fields of requests, the request they mean (Ask), its answer (Answer),
// and the shape of an answer or error in each API, plain and streamed. Answers equal the engines' byte for byte. It
// drives no engine and opens no socket.
package api

import (
	"encoding/json"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// Style is what shapes depend on besides the answer.
type Style struct {
	Kind          fleet.Kind
	Connected     bool // the engine has a connector
	Timed         bool // answers carry llama.cpp's timings
	NoCacheReport bool // usage has no cached tokens
	Ranks         int
	Seed          uint64
}

// Shape is how one API writes an answer.
type Shape interface {
	ContentType() string                             // of a stream
	Open(b []byte, a *Answer) []byte                 // when the first token is there
	Token(b []byte, a *Answer, i int) []byte         // for each token
	Closing(b []byte, a *Answer) []byte              // after the last one
	Failure(b []byte, status int, msg string) []byte // an error inside the stream, and its end
	Whole(a *Answer) any                             // without a stream
}

// event appends one server-sent event with a JSON value.
func event(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values only
	}
	b = append(b, "data: "...)
	b = append(b, j...)
	return append(b, "\n\n"...)
}

func named(b []byte, name string, v map[string]any) []byte {
	v["type"] = name
	return event(append(b, "event: "+name+"\n"...), v)
}

func ndjson(b []byte, v map[string]any) []byte { return append(prompts.AppendJSON(b, v), '\n') }
