package prompt

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
)

// chainOf parses a body that must be valid.
func chainOf(t testing.TB, api API, body string) *Chain {
	t.Helper()
	var c Chain
	if _, err := newParser(t).ParseChain(api, []byte(body), nil, &c); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	checkChain(t, &c)
	return &c
}

// readable writes a canonical form with its marks as words.
func readable(text []byte) string {
	var out strings.Builder
	for _, b := range text {
		switch b {
		case markRole:
			out.WriteString("<")
		case markRoleEnd:
			out.WriteString(">")
		case markPart:
			out.WriteString("<part>")
		case markCall:
			out.WriteString("<call>")
		case markArgs:
			out.WriteString("<args>")
		case markMedia:
			out.WriteString("<media>")
		case markName:
			out.WriteString("<name>")
		case markOther:
			out.WriteString("<other>")
		case markResult:
			out.WriteString("<result>")
		case markResultEnd:
			out.WriteString("</result>")
		case markQuote:
			out.WriteString("'")
		case markSuffix:
			out.WriteString("<suffix>")
		default:
			out.WriteByte(b)
		}
	}
	return out.String()
}

// hashFrom is a second implementation of the chain's function: xxh3 of 128 bytes at a time, each seeded with the hash
// of all before.
func hashFrom(root uint64, text []byte) uint64 {
	for len(text) > 0 {
		n := min(len(text), 128)
		root = xxh3.HashSeed(text[:n], root)
		text = text[n:]
	}
	return root
}

// checkChain checks a chain against its documentation.
func checkChain(t testing.TB, c *Chain) {
	t.Helper()
	if c.Bytes != len(c.text) || len(c.Blocks) != c.Bytes/BlockBytes {
		t.Fatalf("%d bytes of %d, %d blocks", c.Bytes, len(c.text), len(c.Blocks))
	}
	if c.Whole != hashFrom(c.root, c.text) || c.Whole != c.HashAt(c.Bytes) || c.HashAt(0) != c.root {
		t.Fatalf("whole hash of %s", readable(c.text))
	}
	for i, h := range c.Blocks {
		if n := (i + 1) * BlockBytes; h != hashFrom(c.root, c.text[:n]) || h != c.HashAt(n) {
			t.Fatalf("block %d of %s", i, readable(c.text))
		}
	}
	from, system, leading := 0, 0, true
	for _, m := range c.Marks {
		own := xxh3.Hash(c.text[from:m.Bytes])
		if m.Role == OtherRole && m.Own == m.Hash { // a plain prompt's
			own = m.Own
		}
		if m.Bytes <= from || m.Hash != hashFrom(c.root, c.text[:m.Bytes]) || m.Hash != c.HashAt(m.Bytes) ||
			m.Own != own {
			t.Fatalf("mark %+v after %d of %s", m, from, readable(c.text))
		}
		from = m.Bytes
		if leading = leading && m.Role == System; leading {
			system = m.Bytes
		}
	}
	if from != c.Bytes || c.SystemBytes != system || (system > 0 && c.System != c.HashAt(system)) ||
		(system == 0 && c.System != 0) {
		t.Fatalf("ends at %d of %d, system %d of %d", from, c.Bytes, c.SystemBytes, system)
	}
	k := c.Kinds
	if sum := k.Latin + k.Code + k.CJK + k.Other; (c.root == rootText && sum != c.Bytes) ||
		(c.root == rootIDs && sum != 0) || min(k.Latin, k.Code, k.CJK, k.Other) < 0 {
		t.Fatalf("kinds %+v of %d bytes: %s", k, c.Bytes, readable(c.text))
	}
}

// same is what two chains of one prompt have in common.
func same(a, b *Chain) string {
	if diff := cmp.Diff(readable(a.text), readable(b.text)); diff != "" {
		return diff
	}
	switch {
	case a.Scope != b.Scope:
		return "scope"
	case a.ToolsBytes != b.ToolsBytes:
		return "tools bytes"
	case a.System != b.System || a.SystemBytes != b.SystemBytes || a.Whole != b.Whole || a.root != b.root:
		return "hashes"
	case !slices.Equal(a.Blocks, b.Blocks) || !slices.Equal(a.Marks, b.Marks):
		return "blocks or marks"
	case a.Prompts != b.Prompts || a.Media != b.Media || a.Kinds != b.Kinds:
		return "counts"
	}
	return ""
}

func TestCanonicalForm(t *testing.T) {
	rows := []struct {
		name string
		api  API
		body string
		want string
	}{
		{
			"chat", Chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a\nb"}]}`,
			"<system>s<user>a\nb",
		},
		{"parts", Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"text","text":"b"}]}]}`, "<user>a<part>b"},
		{"name", Chat, `{"messages":[{"role":"user","content":"a","name":"kim"}]}`, "<user><name>kim<part>a"},
		{"media", Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"http://x/","detail":"low"}}]}]}`, "<user>a<media>" + hexHash("http://x/")},
		{"audio", Chat, `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}`, "<user><media>" + hexHash("AAAA")},
		{
			"tool calls", Chat, `{"messages":[{"role":"assistant","content":"x","tool_calls":[{"id":"1","type":"function","function":{"name":"ls","arguments":"{\"a\": 1}"}},` +
				`{"function":{"name":"pwd"}}]},{"role":"tool","tool_call_id":"1","content":"out"}]}`,
			`<assistant>x<call>ls<args>{"a": 1}<call>pwd<args><tool>out`,
		},
		{
			"one function call", Chat,
			`{"messages":[{"role":"assistant","function_call":{"name":"ls","arguments":""}}]}`,
			`<assistant><call>ls<args>`,
		},
		{
			"no content", Chat,
			`{"messages":[{"role":"assistant","content":null},{"role":"user","content":[]},{"role":"user"}]}`,
			"<assistant><user><user>",
		},
		{"unknown part", Chat, `{"messages":[{"role":"user","content":[{"type":"poem","lines":[1,{"z":true,"a":"\u0041"}],"cache_control":{}}]}]}`, `<user><other>{'lines':[1,{'a':'A','z':true}],'type':'poem'}`},
		{
			"ollama", OllamaChat, `{"messages":[{"role":"user","content":"a","images":["QQ==","Qg=="]},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":[null]}}}]}]}`, "<user>a<media>" + hexHash("QQ==") + "<media>" + hexHash("Qg==") +
				"<assistant><call>f<args>{'a':[null],'b':1}",
		},
		{
			"anthropic", Messages, `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},` +
				`{"type":"text","text":"so"},{"type":"tool_use","id":"t","name":"ls","input":{"p":"."}}]},{"role":"user","content":[` +
				`{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},` +
				`{"type":"text","text":"go on"}]}],"system":[{"type":"text","text":"sys","cache_control":{"type":"ephemeral"}}]}`,
			"<system>sys<user>hi<assistant>so<call>ls<args>{'p':'.'}<user><result>a<media>" + hexHash("AAAA") +
				"</result><part>go on",
		},
		{"anthropic document", Messages, `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"d"}]}}]}]}`, "<user>d"},
		{
			"no system", Messages, `{"system":[{"type":"text","text":""}],"messages":[{"role":"user","content":"a"}]}`,
			"<user>a",
		},
		{"responses, text", Responses, `{"input":"a","instructions":"i"}`, "<system>i<user>a"},
		{
			"responses, items", Responses, `{"input":[{"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"}]},` +
				`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"zz"},` +
				`{"type":"function_call","id":"x","call_id":"c","name":"ls","arguments":"{}","status":"completed"},{"type":"function_call_output","call_id":"c","output":"o"},` +
				`{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"t","annotations":[]}]},{"type":"item_reference","id":"q"}]}`,
			"<developer>d<user>a<media>" + hexHash("u") +
				"<assistant><call>ls<args>{}<tool>o<assistant>t<user><other>{'id':'q','type':'item_reference'}",
		},
		{"completions", Completions, `{"prompt":"a\u00e9","suffix":"z"}`, "aé<suffix>z"},
		{"completions, list", Completions, `{"prompt":["a","b"]}`, "a\nb"},
		{"completions, list with a suffix", Completions, `{"prompt":["a","b"],"suffix":"z"}`, "a\nb<suffix>z"},
		{"completions, ids", Completions, `{"prompt":[1,258]}`, "\x01\x00\x00\x00\x02\x01\x00\x00"},
		{"completions, lists of ids", Completions, `{"prompt":[[513],[2]]}`, "\x01\x02\x00\x00"},
		{"generate", Generate, `{"text":"a","input_ids":[1]}`, "a"},
		{"generate, ids", Generate, `{"input_ids":[3]}`, "\x03\x00\x00\x00"},
		{"ollama generate", OllamaGenerate, `{"prompt":"p","system":"s","suffix":"x"}`, "<system>s<>p<suffix>x"},
		{"embeddings have no chain", Embeddings, `{"input":"a"}`, ""},
		{"nothing", Completions, `{"prompt":[]}`, ""},
		{"last of two", Chat, `{"messages":[{"role":"x","content":"no"}],"messages":[{"role":"user","role":"tool","content":"a","content":"b"}]}`, "<tool>b"},
		{
			"wrong types", Chat,
			`{"messages":[1,null,true,"text",[],{"role":7,"content":9,"tool_calls":[{}],"name":{}}]}`,
			"<user>text<user><name><other>{}",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := readable(chainOf(t, row.api, row.body).text); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func hexHash(s string) string {
	const hex = "0123456789abcdef"
	h := xxh3.HashString(s)
	out := make([]byte, 16)
	for i := range out {
		out[15-i] = hex[h>>(4*i)&15]
	}
	return string(out)
}

// shape is a body and its API.
type shape struct {
	api  API
	body string
}

func TestChainsThatAreTheSame(t *testing.T) {
	rows := map[string][]shape{
		"spelling of a chat": {
			{Chat, `{"messages":[{"role":"user","content":"\u00e9\ud83d\ude00/\"\n"}],"model":"m"}`},
			{
				Chat, " {\"model\" : \"other\",\n\"messages\":[ { \"content\" :\t\"é😀\\/\\\"\\u000a\" , " +
					"\"r\\u006fle\":\"user\" } ] } ",
			},
			{Chat, `{"messages":[{"content":[{"text":"é😀/\"\n","type":"text","cache_control":{"type":"ephemeral"}}],"role":"user"}],"stream":true,"temperature":1}`},
			{Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"é😀/\"\n"}]}],"response_format":{"type":"text"}}`},
			{OllamaChat, `{"messages":[{"role":"user","content":"é😀/\"\n"}]}`},
			{Messages, `{"messages":[{"role":"user","content":"é😀/\"\n"}],"system":null,"tools":[]}`},
			{Responses, `{"input":"é😀/\"\n","instructions":""}`},
			{
				Responses,
				`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"é😀/\"\n"}]}]}`,
			},
		},
		"tool calls": {
			{Chat, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`},
			{Chat, `{"messages":[{"tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"b","index":0}],"role":"assistant","content":"","reasoning_content":"hm"}]}`},
			{Chat, `{"messages":[{"tool_calls":[{"function":{"arguments":"{}","name":"f"}}],"role":"assistant","content":[],"refusal":null}]}`},
			{Responses, `{"input":[{"type":"function_call","name":"f","arguments":"{}","call_id":"a","id":"x"}]}`},
			{
				Responses,
				`{"input":[{"type":"reasoning","summary":[]},{"arguments":"{}","type":"function_call","name":"f"}]}`,
			},
		},
		"arguments as an object": {
			{Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1,"b":{"x":"y","z":[]}}}]}]}`},
			{Messages, `{"messages":[{"role":"assistant","content":[{"input":{"b":{"z":[ ],"x":"\u0079"},"a":1},"name":"f","type":"tool_use","id":"2"}]}]}`},
			{OllamaChat, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":1,"b":{"z":[],"x":"y"}}}}]}]}`},
		},
		"tools": {
			{Chat, `{"tools":[{"type":"function","function":{"name":"f","parameters":{"a":1.0,"b":[true,null]}}}],"messages":[{"role":"user","content":"a"}],"cache_salt":"s"}`},
			{Chat, `{"cache_salt":"\u0073","messages":[{"role":"user","content":"a"}],"tools":[ {"function":{"parameters":{"b":[true,null],"a":1.0},"name":"f"},"type":"function","cache_control":{"type":"ephemeral"}}]}`},
			{Chat, `{"lora_path":null,"extra_key":"","tools":null,"tools":[{"type":"function","function":{"name":"f","parameters":{"a":1.0,"b":[true,null]}}}],"messages":[{"role":"user","content":"a"}],"cache_salt":"t","cache_salt":"s"}`},
		},
		"system": {
			{Messages, `{"system":"be brief","messages":[{"role":"user","content":"a"}]}`},
			{Messages, `{"messages":[{"role":"user","content":"a"}],"system":[{"text":"be brief","type":"text"}]}`},
			{Chat, `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"a"}]}`},
			{Responses, `{"input":"a","instructions":"be brief"}`},
		},
		"thoughts": {
			{Messages, `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"redacted_thinking","data":"zz"},{"type":"text","text":"a"}]}]}`},
			{Messages, `{"messages":[{"role":"assistant","content":"a"}]}`},
		},
		"media": {
			{Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,AA"}}]}]}`},
			{Chat, `{"messages":[{"role":"user","content":[{"image_url":"data:image/png;base64,AA","type":"image_url"}]}]}`},
			{Responses, `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AA"}]}]}`},
		},
		"one text": {
			{Completions, `{"prompt":"a b","max_tokens":5}`},
			{Completions, `{"prompt":["a\u0020b"]}`},
			{Generate, `{"text":"a b"}`},
			{OllamaGenerate, `{"prompt":"a b"}`},
		},
		"token ids": {
			{Completions, `{"prompt":[1,2,300]}`},
			{Completions, `{"prompt":[[1,2,300]]}`},
			{Generate, `{"input_ids":[ 1,2,3e2]}`},
		},
		"what is not UTF-8": {
			{Completions, `{"prompt":"a\ud800b"}`},
			{Completions, "{\"prompt\":\"a\xffb\"}"},
			{Completions, "{\"prompt\":\"a\xfeb\"}"},
			{Completions, `{"prompt":"a\ufffdb"}`},
		},
	}
	for name, shapes := range rows {
		t.Run(name, func(t *testing.T) {
			first := chainOf(t, shapes[0].api, shapes[0].body)
			for _, s := range shapes[1:] {
				if diff := same(first, chainOf(t, s.api, s.body)); diff != "" {
					t.Errorf("%v %s: %s", s.api, s.body, diff)
				}
			}
		})
	}
}

func TestChainsThatDiffer(t *testing.T) {
	rows := map[string][]shape{
		"text": {
			{Chat, `{"messages":[{"role":"user","content":"ab"}]}`},
			{Chat, `{"messages":[{"role":"system","content":"ab"}]}`},
			{Chat, `{"messages":[{"role":"developer","content":"ab"}]}`},
			{Chat, `{"messages":[{"role":"user","content":"ab "}]}`},
			{Chat, `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`},
			{Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`},
			{Chat, `{"messages":[{"role":"user","content":"ab","name":"kim"}]}`},
			{Chat, `{"messages":[{"role":"user","content":"ab"},{"role":"assistant","content":""}]}`},
			{Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"ab"}]}]}`},
			{Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"abc"}]}]}`},
			{Chat, `{"messages":[{"role":"tool","content":"ab"}]}`},
			{Completions, `{"prompt":"ab"}`},
			{Completions, `{"prompt":"a","suffix":"b"}`},
			{Completions, `{"prompt":["a","b"]}`},
			{OllamaGenerate, `{"prompt":"b","system":"a"}`},
		},
		"calls": {
			{Chat, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`},
			{Chat, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"g","arguments":"{}"}}]}]}`},
			{Chat, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{ }"}}]}]}`},
			{Chat, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]}]}`},
			{Chat, `{"messages":[{"role":"assistant","content":"f{}"}]}`},
			{Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":"x\",\"b\":\"y"}}]}]}`},
			{Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":"x","b":"y"}}]}]}`},
			{
				Messages,
				`{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":1}}]}]}`,
			},
			{
				Messages,
				`{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":"1"}}]}]}`,
			},
			{Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}]}`},
			{Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"a"},{"type":"text","text":"b"}]}]}`},
		},
		"token ids": {
			{Completions, `{"prompt":[97,98]}`},
			{Completions, `{"prompt":[98,97]}`},
			{Completions, `{"prompt":[[97],[98]]}`},
			{Completions, `{"prompt":"a\u0000\u0000\u0000b\u0000\u0000\u0000"}`},
		},
	}
	for name, shapes := range rows {
		t.Run(name, func(t *testing.T) {
			seen := map[uint64]string{}
			for _, s := range shapes {
				c := chainOf(t, s.api, s.body)
				key := c.Whole
				if c.Prompts > 1 {
					key++ // a batch shows in Prompts
				}
				if other, ok := seen[key]; ok {
					t.Errorf("%s has the hash of %s", s.body, other)
				}
				seen[key] = s.body
			}
		})
	}
}

func TestScope(t *testing.T) {
	const rest = `"messages":[{"role":"user","content":"a"}],"prompt":"p","input":"i"`
	bare := chainOf(t, Chat, `{`+rest+`}`)
	if bare.Scope != 0 || bare.ToolsBytes != 0 {
		t.Errorf("a bare chat has scope %x and %d bytes of tools", bare.Scope, bare.ToolsBytes)
	}
	seen := map[uint64]string{}
	for _, field := range []string{
		`"tools":[{"name":"f"}]`, `"tools":[{"name":"g"}]`, `"tools":[{"name":"f"},{"name":"f"}]`,
		`"functions":[{"name":"f"}]`, `"documents":[{"name":"f"}]`, `"tools":[1,2]`, `"tools":[[1,2]]`,
		`"cache_salt":"a"`, `"cache_salt":"b"`, `"extra_key":"a"`, `"extra_key":["a"]`, `"lora_path":"a"`,
		`"lora_request":{"lora_name":"a","lora_int_id":1}`,
		`"lora":[{"id":0,"scale":1}]`, `"lora":[{"id":0,"scale":0.5}]`, `"adapter_id":"a"`, `"adapter":"a"`,
		`"lora_name":"a"`, `"lora_id":1`, `"chat_template":"a"`, `"tools":[{"name":"f"}],"cache_salt":"a"`,
	} {
		c := chainOf(t, Chat, `{`+rest+`,`+field+`}`)
		before := chainOf(t, Chat, `{`+field+`,`+rest+`}`)
		if diff := same(c, before); diff != "" {
			t.Errorf("%s before and after the messages: %s", field, diff)
		}
		if other := seen[c.Scope]; other != "" || c.Scope == 0 {
			t.Errorf("%s has scope %x, that of %s", field, c.Scope, other)
		}
		seen[c.Scope] = field
		if c.Whole != bare.Whole {
			t.Errorf("%s changes the text", field)
		}
	}
	for _, field := range []string{
		`"temperature":0`, `"response_format":{"type":"json_object"}`, `"tool_choice":"none"`, `"user":"u"`,
		`"conversation":"c"`, `"cache_salt":null`, `"tools":[]`,
	} {
		if c := chainOf(t, Chat, `{`+rest+`,`+field+`}`); c.Scope != 0 {
			t.Errorf("%s has scope %x", field, c.Scope)
		}
	}
	for _, s := range []shape{
		{Responses, `"previous_response_id":"r"`},
		{Responses, `"conversation":"c"`},
		{Responses, `"conversation":{"id":"c"}`},
		{Responses, `"prompt":{"id":"p"}`},
		{OllamaGenerate, `"context":[1,2]`},
		{OllamaGenerate, `"images":["QQ=="]`},
		{OllamaGenerate, `"template":"t"`},
	} {
		c := chainOf(t, s.api, `{"messages":[],"input":"i",`+s.body+`}`)
		if other := seen[c.Scope]; other != "" || c.Scope == 0 {
			t.Errorf("%v %s has scope %x, that of %s", s.api, s.body, c.Scope, other)
		}
		seen[c.Scope] = s.body
	}
}

// Tools that were searched for a session id count all the same.
func TestScopeOfWatchedTools(t *testing.T) {
	body := []byte(`{"tools":{"x":"id","y":[1]},"messages":[]}`)
	var a, b Chain
	if _, err := newParser(t).ParseChain(Chat, body, nil, &a); err != nil {
		t.Fatal(err)
	}
	got, err := newParser(t, Source{Field: "tools.x"}).ParseChain(Chat, body, nil, &b)
	if err != nil || got.Session != "id" {
		t.Fatalf("%+v, %v", got, err)
	}
	if diff := same(&a, &b); diff != "" || a.Scope == 0 || a.ToolsBytes != 18 {
		t.Errorf("%d bytes of tools: %s", a.ToolsBytes, diff)
	}
}

func TestMarks(t *testing.T) {
	c := chainOf(t, Chat, `{"messages":[{"role":"system","content":"s"},{"role":"developer","content":"d"},{"role":"user","content":"u"},{"role":"assistant","content":"a"},`+
		`{"role":"tool","content":"t"},{"role":"system","content":"s"},{"role":"critic","content":"c"},{"role":"user","content":"u"}]}`)
	var roles []string
	for _, m := range c.Marks {
		roles = append(roles, m.Role.String())
	}
	if diff := cmp.Diff([]string{
		"system", "system", "user", "assistant", "tool", "system", "other", "user",
	}, roles); diff != "" {
		t.Error(diff)
	}
	if c.Marks[2].Own != c.Marks[7].Own || c.Marks[2].Hash == c.Marks[7].Hash || c.Marks[0].Own != c.Marks[5].Own {
		t.Errorf("own hashes: %+v", c.Marks)
	}
	if c.SystemBytes != c.Marks[1].Bytes || c.System != c.Marks[1].Hash {
		t.Errorf("system part of %d bytes", c.SystemBytes)
	}
	if p := chainOf(t, Completions, `{"prompt":"abc"}`); len(p.Marks) != 1 ||
		p.Marks[0] != (Mark{Bytes: 3, Hash: p.Whole, Own: p.Whole}) {
		t.Errorf("marks of a plain prompt: %+v", p.Marks)
	}
	if p := chainOf(t, Completions, `{"prompt":["abc","d","e"]}`); p.Prompts != 3 {
		t.Errorf("%d prompts", p.Prompts)
	}
	if p := chainOf(t, Chat, `{"messages":[{"role":"user","content":[{"image_url":"a"},{"type":"file",`+
		`"file":{"file_id":"f"}}]}]}`); p.Media != 2 || p.Prompts != 1 {
		t.Errorf("%d media, %d prompts", p.Media, p.Prompts)
	}
}

// A failed body leaves neither its own chain nor an earlier one.
func TestChainAfterAnError(t *testing.T) {
	p := newParser(t)
	var c Chain
	for _, bad := range []string{
		``, `{"messages":[{"role":"user","content":"a`, `{"messages":[{"role":"user","content":"a"}],"model":7}`, `[]`,
		`{"messages":["a\x"]}`, "{\"messages\":[\"a\nb\"]}", `{"messages":["\ud83d\u12"]}`,
	} {
		if _, err := p.ParseChain(Chat,
			[]byte(`{"tools":[1],"messages":[{"role":"user","content":"a"}]}`), nil, &c); err != nil || c.Bytes == 0 {
			t.Fatal(err)
		}
		if _, err := p.ParseChain(Chat, []byte(bad), nil, &c); err == nil || c.Bytes != 0 || len(c.Marks) != 0 ||
			c.Scope != 0 || c.Prompts != 0 || c.Whole != c.HashAt(0) {
			t.Errorf("%s: %v, %+v", bad, err, c)
		}
	}
}

func TestChainDoesNotAllocate(t *testing.T) {
	p := newParser(t)
	bodies := []shape{
		{Chat, string(chatBody(100_000, codeText))},
		{Chat, string(chatBody(20_000, chineseText))},
		{Messages, `{"tools":[{"z":1,"a":{"y":2,"b":[{}]}}],"cache_salt":"s","messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"b":1,"a":2}}]}]}`},
	}
	var c Chain
	if got := testing.AllocsPerRun(20, func() {
		for _, s := range bodies {
			if _, err := p.ParseChain(s.api, []byte(s.body), nil, &c); err != nil {
				t.Fatal(err)
			}
		}
	}); got > 2+2+3 { // two models, two users and the three bodies made from strings
		t.Errorf("%v allocations", got)
	}
}
