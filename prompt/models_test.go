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
	}{
		{Chat, "", `{"model":"a","messages":[{"role":"user","content":"model","model":"x"}],"tools":[{"model":"x"}]}`, []string{"a"}},
		{Chat, "", `{"model":"a","\u006dodel":"\u0062"}`, []string{"a", "b"}},
		{Generate, "", `{"text":"x","lora_path":"l"}`, []string{"l"}},
		{Generate, "", `{"text":["x","y"],"lora_path":["l",null,"m"],"model":null}`, []string{"l", "m"}},
		{Completions, "", `{"model":"a","lora_request":{"lora_name":"l","lora_int_id":1,"lora_path":"/p"}}`, []string{"a", "l", "/p"}},
		{Other, "/api/show", `{"name":"a"}`, []string{"a"}},
		{Other, "/v1/x", `{"name":"a"}`, nil},
		{Other, "", `{"requests":[{"custom_id":"1","params":{"model":"a","messages":[{"content":"x"}]}},{"params":{"model":"b"}}]}`, []string{"a", "b"}},
		{Other, "", `{"session":{"model":"a","audio":{"input":{"transcription":{"model":"b"}}}},"metadata":{"model":"x"}}`, []string{"a", "b"}},
		{Other, "", `{"session":{"input_audio_transcription":{"model":"b"}}}`, []string{"b"}},
		{Other, "", `{"model":"a"`, []string{"a"}},
		{Other, "", `["model"]`, nil},
		{Other, "", ``, nil},
	} {
		if got := Models(c.api, c.path, []byte(c.body)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
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
