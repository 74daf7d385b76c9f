package play_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/play"
)

// TestLearnOnlyWhatUsageSays: an address that fails, or whose usage cannot be right, teaches nothing; texts made by it
// would be without bound.
func TestLearnOnlyWhatUsageSays(t *testing.T) {
	const choice = `{"choices":[{"message":{"content":"x"},"text":"x"}]`
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"an error":           {503, `{"error":"full"}`, "status 503"},
		"no usage":           {200, choice + `}`, "0 tokens"},
		"the same for both":  {200, choice + `,"usage":{"prompt_tokens":7}}`, "7 tokens"},
		"fewer for more":     {200, choice + `,"usage":{"prompt_tokens":-LENGTH}}`, "-"},
		"many for each byte": {200, choice + `,"usage":{"prompt_tokens":LENGTH000000}}`, "000000 tokens"},
		"few for many bytes": {200, choice + `,"usage":{"prompt_tokens":LENGTH}}`, "2 for 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.WriteHeader(tt.status)
				length := map[bool]string{false: "1", true: "2"}[len(body) > 1000]
				_, _ = io.WriteString(w, strings.ReplaceAll(tt.body, "LENGTH", length))
			}))
			defer server.Close()
			for _, recorded := range []bool{false, true} {
				at := play.Target{URL: server.URL, Model: "m", Client: server.Client()}
				err := at.Learn(t.Context(), recorded)
				if err == nil || !strings.Contains(err.Error(), tt.want) || at.TokenBytes != 0 {
					t.Errorf("recorded %v: %v, %v bytes a token", recorded, err, at.TokenBytes)
				}
			}
		})
	}
}
