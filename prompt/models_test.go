package prompt

import (
	"slices"
	"testing"
)

func TestModels(t *testing.T) {
	for _, c := range []struct {
		api  API
		path string
		body string
		want []string
		base bool
	}{
		{
			Chat, "",
			`{"model":"a","messages":[{"role":"user","content":"model","model":"x"}],"tools":[{"model":"x"}]}`,
			[]string{"a"},
			false,
		},
		{Chat, "", `{"model":"a","\u006dodel":"\u0062"}`, []string{"a", "b"}, false},
		{Generate, "", `{"text":"x","lora_path":"l"}`, []string{"l"}, false},
		{Generate, "", `{"text":["x","y"],"lora_path":["l",null,"m"],"model":null}`, []string{"l", "m"}, true},
		{Generate, "", `{"text":["x"],"lora_path":["l","m"],"model":null}`, []string{"l", "m"}, false},
		{Generate, "", `{"text":"x","lora_path":"l","lora_path":null}`, []string{"l"}, true},
		{Generate, "", `{"text":"x","lora_path":[]}`, nil, true},
		{Generate, "", `{"text":"x","lora_path":["l",""]}`, []string{"l", ""}, true},
		{Generate, "", `{"text":"x","model":"a"}`, []string{"a"}, true},
		{Other, "/encode", `{"text":"x","model":"a"}`, []string{"a"}, true},
		{Other, "/encode", `{"text":"x","lora_path":"a"}`, []string{"a"}, false},
		{Chat, "", `{"model":"a","lora_path":null}`, []string{"a"}, false},
		{Other, "", `{"model":"a","model":7}`, []string{"a"}, true},
		{Other, "", `{"model":{"model":"a"}}`, []string{"a"}, true},
		{Completions, "", `{"model":"a","lora_request":{"lora_name":"l","lora_int_id":1,"lora_path":"/p"}}`, []string{
			"a", "l", "/p",
		}, false},
		{Chat, "", `{"model":"a","models":["b","c"],"route":"fallback"}`, []string{"a", "b", "c"}, false},
		{Chat, "", `{"models":["b"],"m\u006fdels":["c"]}`, []string{"b", "c"}, true},
		{Chat, "", `{"model":"a","models":"b"}`, []string{"a", "b"}, false},
		{Chat, "", `{"model":"a","fallbacks":["b",{"model":"c","messages":[{"content":"x"}],"user":"x"}]}`, []string{
			"a", "b", "c",
		}, false},
		{
			Chat, "",
			`{"model":"a","fallbacks":[{"a":["b",{"model":"c"}]}],"context_window_fallbacks":[{"*":["d"]}]}`,
			[]string{"a", "b", "c", "d"},
			false,
		},
		{Chat, "", `{"model":"a","content_policy_fallbacks":[{"a":["b"]}]}`, []string{"a", "b"}, false},
		{
			Chat, "",
			`{"model":"a","extra_body":{"model":"b","models":["c"],"fallbacks":["d"],"extra_body":{"model":"e"}}}`,
			[]string{"a", "b", "c", "d", "e"},
			false,
		},
		{Other, "", `{"requests":[{"params":{"model":"a","fallbacks":["b"]}}]}`, []string{"a", "b"}, true},
		{Chat, "", `{"extra_body":{"model":"b"}}`, []string{"b"}, true},
		{Chat, "", `{"model":"a","metadata":{"models":["b"]},"tools":[{"fallbacks":["c"]}]}`, []string{"a"}, false},
		{Other, "/api/show", `{"name":"a"}`, []string{"a"}, true},
		{Other, "/api/show", `{"NAME":"a","nam\u0045":"b","naMe":"c","names":"d"}`, []string{"a", "b", "c"}, true},
		{Other, "/v1/x", `{"name":"a"}`, nil, true},
		{Other, "", `{"requests":[{"custom_id":"1","params":{"model":"a","messages":[{"content":"x"}]}},{"params":{"model":"b"}}]}`, []string{"a", "b"}, true},
		{
			Other, "",
			`{"session":{"model":"a","audio":{"input":{"transcription":{"model":"b"}}}},"metadata":{"model":"x"}}`,
			[]string{"a", "b"},
			true,
		},
		{Other, "", `{"session":{"input_audio_transcription":{"model":"b"}}}`, []string{"b"}, true},
		{Other, "", `{"model":"a"`, []string{"a"}, true},
		{Other, "", `["model"]`, nil, true},
		{Other, "", ``, nil, true},
	} {
		if got, base := Models(c.api, c.path, []byte(c.body)); !slices.Equal(got, c.want) || base != c.base {
			t.Errorf("%s: %q %v, want %q %v", c.body, got, base, c.want, c.base)
		}
	}
}

func FuzzModels(f *testing.F) {
	f.Add([]byte(`{"requests":[{"params":{"model":"a"}}],"lora_request":{"lora_name":"l"},"lora_path":["x"]}`))
	f.Add([]byte(`{"model":[["a"],{}],"session":{"model":"b"}}`))
	f.Fuzz(func(_ *testing.T, body []byte) {
		Models(Chat, "", body)
		Models(Other, "/api/show", body)
	})
}
