package prefix_test

import (
	"fmt"

	"github.com/warmpath/warmpath/prefix"
)

// Which endpoint has how much of a prompt: endpoints are slots, prompts are chains of hashes of their blocks.
func ExampleIndex() {
	x := prefix.New(prefix.Config{})
	x.Insert(0, []uint64{11, 12, 13}) // a prompt was sent to endpoint 0
	x.Insert(1, []uint64{11, 22})     // and one with the same beginning to endpoint 1

	var m prefix.Matches // used again and again
	x.Match([]uint64{11, 12, 13, 14}, &m)
	fmt.Println(m.Depth(0), m.Depth(1), m.Depth(2))
	// Output: 3 1 0
}
