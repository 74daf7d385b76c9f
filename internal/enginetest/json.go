package enginetest

import "encoding/json"

// appendJSON appends a value of ours.
func appendJSON(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and strings of ours cannot fail
	}
	return append(b, j...)
}

// appendString appends a string as JSON.
func appendString(b []byte, s string) []byte { return appendJSON(b, s) }
