package engine

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestResident: which models an engine has in memory that loads them on demand, of each kind that does.
func TestResident(t *testing.T) {
	for _, tt := range []struct {
		kind      fleet.Kind
		ask, body string
		want      []string // nil where it is not told
	}{
		{
			fleet.KindOllama, AskLoad, `{"models":[{"name":"a:latest"},{"name":"b:8b"}]}`,
			[]string{"a:latest", "a", "b:8b"},
		},
		{fleet.KindLlamaCpp, AskResident, `{"data":[{"id":"a","aliases":["x"],"status":{"value":"loaded"}},{"id":"b","status":{"value":"unloaded","failed":true,"exit_code":1}}]}`, []string{"a", "x"}},
		{fleet.KindLlamaCpp, AskResident, `{"data":[{"id":"a","status":{"value":"downloading"}}]}`, []string{}},
		{fleet.KindLlamaCpp, AskResident, `{"data":[{"id":"a","meta":{"n_ctx":4096}}]}`, nil},
		{
			fleet.KindOther, AskResident,
			`{"running":[{"model":"a","state":"ready"},{"model":"b","state":"stopping"}]}`,
			[]string{"a"},
		},
		{
			fleet.KindOther, AskResident,
			`{"object":"list","data":[{"id":"a","type":"llm","state":"loaded","loaded_context_length":8192},` +
				`{"id":"b","type":"embeddings","state":"not-loaded"}]}`,
			[]string{"a"},
		},
		{fleet.KindOther, AskResident, `{"data":[{"id":"b","type":"llm","state":"not-loaded"}]}`, []string{}},
		{fleet.KindOther, AskResident, `{"error":"Unexpected endpoint or method. (GET /running)"}`, nil},
		{fleet.KindOther, AskResident, `{"running":"yes"}`, nil},
		{fleet.KindOther, AskResident, `[]`, nil},
	} {
		var r fleet.Report
		err := dialect(t, tt.kind).Read(Answer{Ask: tt.ask, Path: "/x", Status: 200, Body: []byte(tt.body)},
			fleet.Part{}, &r)
		switch {
		case tt.want == nil && r.Load != nil:
			t.Errorf("%s %s: %v", tt.kind, tt.body, r.Load.Loaded)
		case tt.want != nil && (err != nil || r.Load == nil || !slices.Equal(r.Load.Loaded, tt.want)):
			t.Errorf("%s %s: %v, %v", tt.kind, tt.body, r.Load, err)
		}
	}
}
