package prompt

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestRefers(t *testing.T) {
	for _, c := range []struct {
		api  API
		path string
		body string
		want []string
	}{
		{
			Responses, "",
			`{"input":"previous_response_id","previous_response_id":"a","conversation":{"x":[1],"id":"b"}}`,
			[]string{"a", "b"},
		},
		{Responses, "", `{"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"},{"type":"input_image","file_id":"g"}]}]}`, []string{"f", "g"}},
		{Responses, "", `{"input":[{"type":"item_reference","id":"i"},{"id":"j"},{"id":"k","type":"message"},{"id":"l","role":"user"}]}`, []string{"i", "j"}},
		{Responses, "", `{"input":[{"id":"i","type":"item_refer\u0065nce"},{"type":"function_call_output","output":[{"type":"input_file","file_id":"f"}]}]}`, []string{"i", "f"}},
		{Responses, "", `{"tools":[{"type":"file_search","vector_store_ids":["v"]},{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}},{"container":"c"}]}`, []string{"v", "f", "c"}},
		{Responses, "", `{"tools":[{"type":"function","parameters":{"properties":{"file_id":{"id":"x"}},"examples":[{"file_id":"x"}]}}],"metadata":{"file_id":"x"}}`, nil},
		{
			Responses, "",
			`{"prompt":{"id":"p","variables":{"a":{"type":"input_file","file_id":"f"}}},"conversation":null}`,
			[]string{"f"},
		},
		{Responses, "", `{"input":[{"previous_response_id":"a","conversation":"c"}]}`, []string{"a"}},
		{Chat, "", `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]},{"role":"assistant","tool_calls":[{"id":"x","function":{"arguments":{"file_id":"x"}}}]}]}`, []string{"f"}},
		{Messages, "", `{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f"}},{"type":"container_upload","file_id":"g"}]}],"container":"c"}`, []string{"f", "g", "c"}},
		{Messages, "", `{"messages":[{"content":[{"type":"tool_use","id":"t","input":{"file_id":"x"}},{"type":"tool_result","content":[{"source":{"file_id":"f"}}]}]}]}`, []string{"f"}},
		{Chat, "", `{"documents":[{"file_id":"x"}],"response_format":{"json_schema":{"schema":{"file_id":"x"}}},"messages":[{"content":"file_id"}]}`, nil},
		{Chat, "", `{"guided_json":{"dependentRequired":{"container":["x"]}},"structured_outputs":{"json":{"examples":[{"file_id":"x"}]}},"model":"m"}`, nil},
		{Chat, "", `{"format":{"default":{"container":"x"}},"json_schema":{"default":{"container":"x"}},"vllm_xargs":{"container":"x"},"file_id":"f"}`, []string{"f"}},
		{Responses, "", `{"tools":[{"type":"mcp","headers":{"container":"x"}}],"input":[{"type":"local_shell_call","action":{"env":{"container":"x"}}}]}`, nil},
		{Responses, "", `{"prompt":{"variables":{"container":"x","file_id":{"type":"input_file","file_id":"f"},"a":[{"file_id":"g"}]}},"file_ids":["h"]}`, []string{"f", "g", "h"}},
		{Responses, "", `{"prompt":{"variables":"x"},"file_ids":["h"]}`, []string{"h"}},
		{Responses, "", `{"input":[[{"file_id":"f"}]]}`, []string{"f"}},
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
		if got, _, err := Refers(c.api, c.path, []byte(c.body)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.body, got, err, c.want)
		}
	}
}

// TestRefersIsBounded: a body with more ids and names than are noted is refused, whatever their kind, and not read on.
// What is no reference does not count.
func TestRefersIsBounded(t *testing.T) {
	for _, c := range []struct {
		api               API
		before, each, end string
		bounded           bool
	}{
		{Chat, `{"messages":[{"content":[`, `{"uuid":1}`, `]}]}`, true},
		{Chat, `{"messages":[{"content":[{`, `"uuid":""`, `}]}]}`, true},
		{Chat, `{"messages":[{"content":[`, `{"image_url":{"content_hash":""}}`, `]}]}`, true},
		{Chat, `{"messages":[{"content":[`, `{"file":{"file_id":"f"}}`, `]}]}`, true},
		{Other, `{"features":{"mm_hashes":{"image":[`, `""`, `]}}}`, true},
		{Generate, `{"rid":[`, `""`, `]}`, true},
		{Chat, `{"request_id":[`, `"a"`, `]}`, true},
		{Responses, `{"input":[`, `{"id":"a"}`, `]}`, true},
		{Responses, `{"input":[{`, `"id":"a"`, `}]}`, true},
		{Responses, `{"tools":[{"vector_store_ids":[`, `"v"`, `]}]}`, true},
		{Responses, `{"conversation":{`, `"id":"c"`, `}}`, true},
		{Responses, `{"prompt":{"variables":{`, `"a":{"file_id":"f"}`, `}}}`, true},
		{Messages, `{"messages":[`, `{"content":[{"type":"tool_use","id":"t"}]}`, `]}`, false},
		{Chat, `{"tools":[{"parameters":{"required":[`, `"uuid"`, `]}}]}`, false},
	} {
		body := func(n int) []byte {
			return []byte(c.before + strings.TrimSuffix(strings.Repeat(c.each+",", n), ",") + c.end)
		}
		if _, _, err := Refers(c.api, "", body(maxNamed)); err != nil {
			t.Errorf("%s%s: %v", c.before, c.each, err)
		}
		ids, media, err := Refers(c.api, "", body(2*maxNamed))
		if got := errors.Is(err, ErrNamed); got != c.bounded {
			t.Errorf("%s%s: %v, refused: %t", c.before, c.each, err, c.bounded)
		}
		if n := len(ids) + len(media.Names) + len(media.Digests); n > maxNamed+1 {
			t.Errorf("%s%s: noted %d", c.before, c.each, n)
		}
	}
}

func FuzzRefers(f *testing.F) {
	f.Add([]byte(
		`{"input":[{"id":"a"},{"content":[{"file":{"file_id":"f"}}]}],"tools":[{"container":{"file_ids":["g"]}}]}`))
	f.Add([]byte(`{"previous_response_id":"a","conversation":{"id":"b"},"file_ids":["c",{}]}`))
	f.Fuzz(func(_ *testing.T, body []byte) { _, _, _ = Refers(Responses, "", body) })
}
