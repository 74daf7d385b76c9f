// Package api is what the APIs of engines look like: the fields of requests, what is asked in them (Ask), what is answered (Answer), and the
// shape that each API gives an answer, plain and as a stream, or an error. Answers are written byte for byte as the engines do. It never
// drives an engine and never opens a socket.
package api

import (
	"encoding/json"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// Style is what the shapes depend on beside the answer.
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
