package content

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

func TestCharacters(t *testing.T) {
	for _, tt := range []struct {
		bytes int
		c     *fleet.Content
		want  int
	}{
		{1000, nil, 1000},
		{1000, &fleet.Content{}, 1000},
		{900, &fleet.Content{Text: fleet.Text{CJK: 900}}, 300},
		{900, &fleet.Content{Text: fleet.Text{Other: 400}}, 700},
		{10, &fleet.Content{Text: fleet.Text{CJK: 900}}, 0}, // a text longer than its prompt
	} {
		if got := Characters(tt.bytes, tt.c); got != tt.want {
			t.Errorf("%d bytes of %+v: %d characters, want %d", tt.bytes, tt.c, got, tt.want)
		}
	}
}

func TestAPromptThatWasNotRead(t *testing.T) {
	r := &fleet.Request{PromptBytes: 500}
	if Blocks(r) != nil || Bytes(r) != 0 {
		t.Errorf("%d blocks, %d bytes", len(Blocks(r)), Bytes(r))
	}
	r.Content = &fleet.Content{Bytes: 300, Blocks: []uint64{1, 2}}
	if len(Blocks(r)) != 2 || Bytes(r) != 300 {
		t.Errorf("%d blocks, %d bytes", len(Blocks(r)), Bytes(r))
	}
}
