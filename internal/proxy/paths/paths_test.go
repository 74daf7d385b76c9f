package paths

import (
	"testing"

	"github.com/warmpath/warmpath/prompt"
)

// TestActions: what is posted to a name such as "batch" acts on nothing that an engine keeps, and only what an engine
// computes a prompt for may be found in its cache later. A name that is no action is an object's.
func TestActions(t *testing.T) {
	for _, tt := range []struct {
		path     string
		kept     string
		computes bool
	}{
		{"/v1/chat/completions/batch", "", true},
		{"/v1/chat/completions/derender", "", false},
		{"/v1/chat/completions/render", "", false},
		{"/v1/completions/derender", "", false},
		{"/v1/messages/render", "", false},
		{"/v1/responses/render", "", false},
		{"/v1/systemone", "", true},
		{"/generative_scoring", "", true},
		{"/v1/responses/resp_1", "resp_1", false},
		{"/v1/chat/completions/chatcmpl-1", "chatcmpl-1", true},
	} {
		if got := KeptAt("POST", tt.path).ID; got != tt.kept {
			t.Errorf("%s is about the object %q, want %q", tt.path, got, tt.kept)
		}
		if got := Computes(prompt.Other, "POST", tt.path); got != tt.computes {
			t.Errorf("%s computes a prompt: %t, want %t", tt.path, got, tt.computes)
		}
	}
}
