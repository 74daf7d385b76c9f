package engine

import (
	"strings"
	"testing"
)

// TestEnding: only what an engine says of itself is its end. What a request is at fault for, or repeats, is not.
func TestEnding(t *testing.T) {
	down := string(fixture(t, "trtllm/0076e939/down.json"))
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   bool
	}{
		{"trtllm, captured", 400, down, true},
		{"another status", 404, down, false},
		{"it is 503 already", 503, down, false},
		{"as OpenAI's error", 400, `{"error":{"message":"LLM is shutting down","code":400}}`, true},
		{"a prompt too long", 400, string(fixture(t, "trtllm/0076e939/too_long.json")), false},
		{"an unknown member", 400, string(fixture(t, "trtllm/0076e939/unknown_field.json")), false},
		{
			"a request that says so", 400, strings.Replace(string(fixture(t, "trtllm/0076e939/no_model.json")), "'hi'",
				"'LLM is shutting down'", 1), false,
		},
		{"more", 400, strings.Replace(down, "down", "down the model", 1), false},
		{"longer than what is read", 400, down + strings.Repeat(" ", EndingBytes), false},
		{"nothing", 400, "", false},
	} {
		if got := Ending(test.status, []byte(test.body)); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func FuzzEnding(f *testing.F) {
	f.Add(400,
		[]byte(`{"object":"error","message":"LLM is shutting down","type":"BadRequestError","param":null,"code":400}`))
	f.Add(400, []byte(`{"error":"LLM is shutting down"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if Ending(status, body) && (status != 400 || len(body) > EndingBytes || Absent(status, body) != AbsentNothing) {
			t.Errorf("%d %q", status, body)
		}
	})
}
