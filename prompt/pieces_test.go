package prompt

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPiecesAreTheSplice: for any edits the joined pieces equal the result of Splice, and long parts are not copied.
func TestPiecesAreTheSplice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		long := strings.Repeat("x", rapid.IntRange(0, 20_000).Draw(t, "long"))
		body := []byte(`{"stream":true,"messages":[{"role":"user","content":"` + long + `"}],"max_tokens":5}`)
		p, err := (&Parser{}).Parse(Chat, body, nil)
		if err != nil {
			t.Fatal(err)
		}
		var edits []Edit
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"stream", "max_tokens", "kv_transfer_params", "min_tokens", "cache_salt",
		}), 0, 5, rapid.ID[string]).Draw(t, "members") {
			edits = append(edits,
				p.SetField(name, []byte(strings.Repeat("7", rapid.IntRange(1, 9000).Draw(t, "value")))))
		}
		pieces := Pieces(body, edits...)
		if got, want := bytes.Join(pieces, nil), Splice(nil, body, edits...); !bytes.Equal(got, want) {
			t.Fatalf("got %.300s\nwant %.300s", got, want)
		}
		if len(long) >= longPiece {
			at := bytes.IndexByte(body, 'x')
			shared := false
			for _, piece := range pieces {
				if i := bytes.IndexByte(piece, 'x'); i >= 0 && &piece[i] == &body[at] {
					shared = true
				}
			}
			if !shared {
				t.Fatal("the long text was copied")
			}
		}
	})
}
