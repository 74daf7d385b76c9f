package paths

import (
	"strings"
	"testing"
)

func TestMeant(t *testing.T) {
	for _, tt := range []struct{ asked, want string }{
		{"/v1/chat/completion", "/v1/chat/completions"},
		{"/v1/chat/completions/", "/v1/chat/completions"},
		{"/chat/completions", "/v1/chat/completions"},
		{"/v1/v1/chat/completions", "/v1/chat/completions"},
		{"/openai/v1/chat/completions", "/v1/chat/completions"},
		{"//v1/chat/completions", "/v1/chat/completions"},
		{"/V1/Chat/Completions", "/v1/chat/completions"},
		{"/v1/chatcompletions", "/v1/chat/completions"},
		{"/v1", "/v1/chat/completions"},
		{"/v1/chat", "/v1/chat/completions"},
		{"/completions", "/v1/completions"},
		{"/v1/embedding", "/v1/embeddings"},
		{"/messages", "/v1/messages"},
		{"/anthropic/v1/messages", "/v1/messages"},
		{"/v1/model", "/v1/models"},
		{"/ollama/api/generate", "/api/generate"},
		{"/v1/chat/completions/chat/completions", "/v1/chat/completions"},
		{"/v1/completions/chat/completions", "/v1/chat/completions"},
		{"/v1/embeddings/embeddings", "/v1/embeddings"},
		{"/openai/deployments/m/chat/completions", "/v1/chat/completions"},
		{"/v1/threads/t/messages", ""},
		{"/v1/messages/batches", ""},
		{"/v1/chat/completions", ""},
		{"/", ""},
		{"", ""},
		{"/sleep", ""},
		{"/api/copy", ""},
		{"/favicon.ico", ""},
		{"/v1/files", ""},
		{"/v1/videos", ""},
		{"/v1/modles", "/v1/models"},
		{"/chatcompletions", "/v1/chat/completions"},
		{"/v1/embed", "/v1/embeddings"},
		{"/v1/batches", ""},
		{strings.Repeat("/v1/chat/completions", 1_000), ""},
	} {
		want := tt.want
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got := Meant(tt.asked); got != want {
			t.Errorf("%.40q: %q, want %q", tt.asked, got, want)
		}
	}
}
