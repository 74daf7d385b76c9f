package peers

import (
	"testing"

	"github.com/warmpath/warmpath/route/learnt"
)

// FuzzKept: a value of the store is one conversation or is left out.
func FuzzKept(f *testing.F) {
	f.Add([]byte{0, 0})
	p := learnt.Conversations{Names: []string{"e", "m", ""}, Claimed: []learnt.Conversation{
		{Hi: 1, Lo: 2, Model: 1, Leader: 2, Tokens: 9, Turns: 3},
	}}
	good, _ := appendKept(nil, &p, nil)
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p learnt.Conversations
		_, err := readKept(b, &p)
		if n := len(p.Claimed) + len(p.Unclaimed) + len(p.Responses); (err == nil) != (n == 1) || len(p.Names) > 3 {
			t.Errorf("%d entries, %d names, %v", n, len(p.Names), err)
		}
		o := opener{secret: []byte("s"), sealers: map[uint64]sealer{}}
		if _, _, err := o.open("name", b); err == nil {
			t.Error("it opens")
		}
	})
}
