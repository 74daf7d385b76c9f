package answer

import "testing"

// TestFinishReasonAnyhow: a reason to finish is known however a server spaces its JSON.
func TestFinishReasonAnyhow(t *testing.T) {
	for event, want := range map[string]bool{
		`{"choices":[{"finish_reason":"stop"}]}`:               true,
		`{"choices": [{"finish_reason": "length"}]}`:           true,
		`{"choices":[{"finish_reason":null}]}`:                 false,
		`{"choices":[{"finish_reason": null},{"index": "x"}]}`: false,
		`{"content":"\"finish_reason\":\"stop\""}`:             false,
	} {
		if got := hasText([]byte(event), `"finish_reason"`); got != want {
			t.Errorf("%s: %v", event, got)
		}
	}
}
