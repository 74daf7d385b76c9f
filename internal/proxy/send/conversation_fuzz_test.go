package send

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/prompt"
)

// A member that is cut out leaves all others as they were, whatever else is inserted; one that cannot be is left.
func FuzzMemberSpan(f *testing.F) {
	for _, s := range []string{
		`{"conversation_params":{"conversation_id":"s"}}`, `{"conversation_params":1,"a":2}`,
		`{"a":2 , "conversation_params" : {"x":[1,{"y":","}]} }`,
		`{ "conversation_params":"," ,"model":"m"}`, `{"conversation\u005fparams":1,"a":2}`,
		`{"a":"conversation_params","conversation_params":null,"b":[]}`, `[]`, ``,
	} {
		f.Add(s)
	}
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		p, err := parser.Parse(prompt.Chat, []byte(body), nil)
		if err != nil || strings.Count(body, "params") > 1 {
			return
		}
		span, ok := memberSpan([]byte(body), p.Field(conversationParams), conversationParams)
		if !ok {
			return
		}
		out := prompt.Splice(nil, []byte(body), prompt.Edit{At: span}, p.SetField("rid", []byte("7")))
		var before, after map[string]json.RawMessage
		if json.Unmarshal([]byte(body), &before) != nil {
			return // the scanner takes what encoding/json refuses, such as bytes that are no UTF-8
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s became %s: %v", body, out, err)
		}
		delete(before, conversationParams)
		before["rid"] = json.RawMessage("7")
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%s became %s", body, out)
		}
	})
}

func FuzzMemberNames(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1,"conversation_id":"x"}`, `{"request_type":"context_only","conversation_id":null}`, `null`,
		`{"a":`, `{"a":1}x`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, object string) {
		names, ok := memberNames([]byte(object))
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(object), &want) != nil || want == nil || strings.Contains(object, `\`) {
			return
		}
		if !ok {
			t.Fatalf("%q is an object", object)
		}
		seen := map[string]bool{}
		for _, n := range names {
			seen[n] = true
		}
		for n := range want {
			if !seen[n] && !strings.ContainsRune(n, '\uFFFD') {
				t.Fatalf("%q has no %q", object, n)
			}
		}
	})
}
