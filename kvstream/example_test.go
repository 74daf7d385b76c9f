package kvstream_test

import (
	"fmt"

	"github.com/warmpath/warmpath/kvstream"
)

// An engine has stored two blocks of four tokens each. A prompt that begins with the same tokens has the same names.
func ExampleStream() {
	s, ops := kvstream.New(0), kvstream.Ops{}
	var b kvstream.Batch // what a decoder of the engine's messages fills in
	*b.Next() = kvstream.Event{
		Kind: kvstream.Stored, Hashes: []uint64{901, 902}, Tokens: []uint32{1, 2, 3, 4, 5, 6, 7, 8}, BlockTokens: 4,
	}
	const number = 0 // of the message
	if s.Step(number, b.At) == kvstream.Apply {
		s.Apply(number, &b, &ops)
	}
	prompt := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	names := kvstream.Names(prompt, 4, "", 0, nil)
	for i := range ops.List {
		stored := ops.Of(&ops.List[i])
		fmt.Println(len(stored), stored[0] == names[0], stored[1] == names[1])
	}
	// Output: 2 true true
}
