package engine

import (
	"strings"
	"testing"
)

// TestOwnStatus: only what an engine says of itself is its own. What a request is at fault for, or repeats, is not.
func TestOwnStatus(t *testing.T) {
	down := string(fixture(t, "trtllm/0076e939/down.json"))
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   int
	}{
		{"trtllm, captured", 400, down, 503},
		{"another status", 404, down, 404},
		{"it is 503 already", 503, down, 503},
		{"as OpenAI's error", 400, `{"error":{"message":"LLM is shutting down","code":400}}`, 503},
		{"a prompt too long", 400, string(fixture(t, "trtllm/0076e939/too_long.json")), 400},
		{"an unknown member", 400, string(fixture(t, "trtllm/0076e939/unknown_field.json")), 400},
		{
			"a request that says so", 400, strings.Replace(string(fixture(t, "trtllm/0076e939/no_model.json")), "'hi'",
				"'LLM is shutting down'", 1), 400,
		},
		{"more", 400, strings.Replace(down, "down", "down the model", 1), 400},
		{"longer than what is read", 400, down + strings.Repeat(" ", OwnBytes), 400},
		{
			"LM Studio", 400, `{"error":"The model has crashed without additional information. (Exit code: null)"}`,
			500,
		},
		{"a prompt about it", 400, `{"error":"bad: The model has crashed without additional information."}`, 400},
		{"nothing", 400, "", 400},
	} {
		if got := OwnStatus(test.status, []byte(test.body)); got != test.want {
			t.Errorf("%s: %d", test.name, got)
		}
	}
}

func FuzzOwnStatus(f *testing.F) {
	f.Add(400,
		[]byte(`{"object":"error","message":"LLM is shutting down","type":"BadRequestError","param":null,"code":400}`))
	f.Add(400, []byte(`{"error":"LLM is shutting down"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if OwnStatus(status, body) != status &&
			(status != 400 || len(body) > OwnBytes || Absent(status, body) != AbsentNothing) {
			t.Errorf("%d %q", status, body)
		}
	})
}
