package prompts

import "encoding/json"

// AppendJSON appends a value that can be encoded.
func AppendJSON(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and strings of ours cannot fail
	}
	return append(b, j...)
}

// AppendString appends a string as JSON.
func AppendString(b []byte, s string) []byte { return AppendJSON(b, s) }

// Quoted is a text as JSON.
func Quoted(s string) json.RawMessage { return AppendString(nil, s) }
