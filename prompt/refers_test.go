package prompt

import (
	"slices"
	"testing"
)

func TestRefers(t *testing.T) {
	for _, c := range []struct {
		api  API
		path string
		body string
		want []string
	}{
		{Responses, "", `{"input":"previous_response_id","previous_response_id":"a","conversation":{"x":[1],"id":"b"}}`, []string{"a", "b"}},
		{Responses, "", `{"previous_response_id":"a","\u0070revious_response_id":"\u0062"}`, []string{"a", "b"}},
		{Chat, "", `{"conversation":"c","previous_response_id":"a"}`, []string{"a"}},
		{Generate, "", `{"session_params":{"id":"s","rid":null},"session_id":"x"}`, []string{"s"}},
		{Other, "/close_session", `{"session_id":"s"}`, []string{"s"}},
		{Other, "", `{"input_file_id":"f","file_ids":["g",7,"h"],"conversation":"c"}`, []string{"f", "g", "h", "c"}},
		{Other, "", `{"previous_response_id":null,"conversation":7,"file_ids":[`, nil},
		{Other, "", `["previous_response_id"]`, nil},
		{Other, "", ``, nil},
		{Other, "", `{"file_ids":["a"`, []string{"a"}},
	} {
		if got := Refers(c.api, c.path, []byte(c.body)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
}

func FuzzRefers(f *testing.F) {
	f.Add([]byte(`{"previous_response_id":"a","conversation":{"id":"b"},"file_ids":["c",{}]}`))
	f.Fuzz(func(_ *testing.T, body []byte) { Refers(Responses, "", body) })
}
