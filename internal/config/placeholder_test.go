package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/config"
)

// TestPlaceholders: a secret that is written as the name of a variable, as files of other programs have it, is told
// with its place and what to write; it would be the secret itself. Texts that only look a little like one are secrets.
func TestPlaceholders(t *testing.T) {
	_, err := config.Parse("w.yaml", []byte(`admin: {token: "${ADMIN_TOKEN_OF_OURS}"}
endpoints:
- {url: "http://a:1", api_key: "${VLLM_API_KEY}"}
- {url: "http://b:1", api_key: os.environ/VLLM_API_KEY}
- http://c:1,api_key=$(VLLM_API_KEY)
- {url: "http://d:1", api_key: $VLLM_API_KEY}
- {url: "http://e:1", api_key: "pa$$word$"}
- {url: "http://f:1", api_key: "{a}$b(c)"}
discovery:
  dns:
  - {name: n, port: 1, api_key: "{{ .Values.key }}"}
otlp: {endpoint: "http://o:1", headers: {a: b, c: "Bearer ${KEY:-none}"}}
`), nil)
	const envOrFile = "; give api_key_env or api_key_file"
	want := []string{
		`w.yaml:1:9: admin.token: has "${ADMIN_TOKEN_OF_OURS}" as it stands, ` + unreplaced + "; give token_file",
		`w.yaml:3:23: endpoints[0].api_key: has "${VLLM_API_KEY}" as it stands, ` + unreplaced + envOrFile,
		`w.yaml:4:23: endpoints[1].api_key: has "os.environ/VLLM_API_KEY" as it stands, ` + unreplaced + envOrFile,
		`w.yaml:5:3: endpoints[2].api_key: has "$(VLLM_API_KEY)" as it stands, ` + unreplaced + envOrFile,
		`w.yaml:6:23: endpoints[3].api_key: has "$VLLM_API_KEY" as it stands, ` + unreplaced + envOrFile,
		`w.yaml:11:24: discovery.dns[0].api_key: has "{{ .Values.key }}" as it stands, ` + unreplaced + envOrFile,
		`w.yaml:12:32: otlp.headers: has "${KEY:-none}" as it stands, ` + unreplaced,
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(lines(err), "\n")); diff != "" {
		t.Error(diff)
	}
}

const unreplaced = "since variables are not replaced here"
