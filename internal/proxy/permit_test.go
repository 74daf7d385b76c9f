package proxy_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// listing is an engine that lists its models in every way, and notes what else it was asked.
type listing struct {
	models []string
	mu     sync.Mutex
	asked  []string
}

func (l *listing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/v1/models", "/models", "/api/tags", "/api/ps":
		var data []map[string]any
		for _, m := range l.models {
			data = append(data, map[string]any{"id": m, "name": m, "object": "model"})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "models": data})
		return
	}
	l.mu.Lock()
	l.asked = append(l.asked, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	l.mu.Unlock()
	_, _ = io.WriteString(w, chatAnswer)
}

func (l *listing) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.asked = nil }()
	return l.asked
}

// keyed is a router in front of an engine with m and its adapter a, one with n, and one with secret, which keys may use
// in part.
func keyed(t *testing.T) (*rig, []*listing) {
	t.Helper()
	engines := []*listing{{models: []string{"m", "a"}}, {models: []string{"n"}}, {models: []string{"secret"}}}
	keys := identity.Keys{}
	add := func(key, tenant string, models ...string) {
		keys.Add(sha256.Sum256([]byte(key)), identity.Key{Tenant: tenant, Models: models})
	}
	add("all", "blue")
	add("one", "blue", "m")
	add("some", "blue", "m", "n", "unserved")
	add("adapter", "blue", "a")
	add("none", "blue", "unserved")
	add("theirs", "green") // the tenant may use m and n
	add("both", "green", "m", "secret")
	r := newRig(t, proxy.Config{
		Tenants: &identity.Tenants{Keys: keys, Required: true, Models: map[string]fleet.Names{"green": {"m", "n*"}}},
	}, engines[0].ServeHTTP, engines[1].ServeHTTP, engines[2].ServeHTTP)
	for i, e := range engines {
		report := fleet.Report{Healthy: true, Kind: fleet.KindVLLM}
		for j, m := range e.models {
			report.Models = append(report.Models, fleet.Model{ID: m, Parent: []string{"", "m"}[j]})
		}
		r.fleet.Observe(route.Probed{Endpoint: fmt.Sprint("e", i), Report: report})
	}
	return r, engines
}

// way is a way to name a model; MODEL stands for its name.
type way struct{ name, method, path, contentType, body string }

const form = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nMODEL\r\n--x--\r\n"

var ways = []way{
	{"chat", "POST", "/v1/chat/completions", "", `{"model":"MODEL","messages":[{"role":"user","content":"x"}]}`},
	{
		"chat, twice", "POST", "/v1/chat/completions", "",
		`{"model":"MODEL","model":"m","messages":[{"role":"user","content":"x"}]}`,
	},
	{"chat, escaped", "POST", "/v1/chat/completions", "", `{"mod\u0065l":"MODEL","messages":[]}`},
	{"completions", "POST", "/v1/completions", "", `{"model":"MODEL","prompt":"x"}`},
	{"responses", "POST", "/v1/responses", "", `{"model":"MODEL","input":"x"}`},
	{"messages", "POST", "/v1/messages", "", `{"model":"MODEL","max_tokens":5,"messages":[]}`},
	{"count_tokens", "POST", "/v1/messages/count_tokens", "", `{"model":"MODEL","messages":[]}`},
	{"embeddings", "POST", "/v1/embeddings", "", `{"model":"MODEL","input":"x"}`},
	{"rerank", "POST", "/v1/rerank", "", `{"model":"MODEL","query":"x","documents":[]}`},
	{"tokenize", "POST", "/tokenize", "", `{"model":"MODEL","prompt":"x"}`},
	{"ollama chat", "POST", "/api/chat", "", `{"model":"MODEL","messages":[]}`},
	{"ollama generate", "POST", "/api/generate", "", `{"model":"MODEL","prompt":"x"}`},
	{"ollama show", "POST", "/api/show", "", `{"model":"MODEL"}`},
	{"ollama show, by name", "POST", "/api/show", "", `{"model":"m","name":"MODEL"}`},
	{"ollama show, by name in large letters", "POST", "/api/show", "", `{"Name":"MODEL"}`},
	{"an adapter of SGLang", "POST", "/generate", "", `{"text":"x","model":"m","lora_path":"MODEL"}`},
	{"adapters of SGLang", "POST", "/generate", "", `{"text":["x"],"model":"m","lora_path":["m","MODEL"]}`},
	{
		"an adapter of TensorRT-LLM", "POST", "/v1/completions", "",
		`{"model":"m","prompt":"x","lora_request":{"lora_name":"MODEL"}}`,
	},
	{"OpenRouter's list", "POST", "/v1/chat/completions", "", `{"model":"m","models":["m","MODEL"],"messages":[]}`},
	{
		"fallbacks of LiteLLM", "POST", "/v1/chat/completions", "",
		`{"model":"m","messages":[],"fallbacks":[{"model":"MODEL","messages":[]}]}`,
	},
	{
		"fallbacks by model", "POST", "/v1/responses", "",
		`{"model":"m","input":"x","context_window_fallbacks":[{"m":["MODEL"]}]}`,
	},
	{
		"what LiteLLM passes on", "POST", "/v1/messages", "",
		`{"model":"m","messages":[],"extra_body":{"model":"MODEL"}}`,
	},
	{"JSON as text", "POST", "/completion", "text/plain", `{"model":"MODEL","prompt":"x"}`},
	{"JSON as bytes", "POST", "/completion", "application/octet-stream", `{"model":"MODEL","prompt":"x"}`},
	{"a mark before JSON", "POST", "/completion", "", "\ufeff" + `{"model":"MODEL","prompt":"x"}`},
	{
		"two marks before JSON", "POST", "/v1/rerank", "",
		"\ufeff\ufeff" + `{"model":"MODEL","query":"x","documents":[]}`,
	},
	{"three marks before JSON", "POST", "/v1/x", "", "\ufeff\ufeff\ufeff" + `{"model":"MODEL"}`},
	{
		"two marks before JSON as text", "POST", "/tokenize", "text/plain",
		"\ufeff\ufeff" + `{"model":"MODEL","prompt":"x"}`,
	},
	{
		"three marks before JSON as bytes", "POST", "/completion", "application/octet-stream",
		"\ufeff\ufeff\ufeff" + `{"model":"MODEL","prompt":"x"}`,
	},
	{"a session", "POST", "/v1/realtime/client_secrets", "", `{"session":{"type":"realtime","model":"MODEL"}}`},
	{
		"a batch", "POST", "/v1/messages/batches", "",
		`{"requests":[{"params":{"model":"m"}},{"params":{"model":"MODEL"}}]}`,
	},
	{"a form with a file", "POST", "/v1/audio/transcriptions", "multipart/form-data; boundary=x", form},
	{
		"a form, twice", "POST", "/v1/audio/transcriptions", "multipart/form-data; boundary=x",
		strings.TrimSuffix(form, "--x--\r\n") + strings.ReplaceAll(form, "MODEL", "m"),
	},
	{"a form", "POST", "/v1/x", "application/x-www-form-urlencoded", `a=b&model=MODEL`},
	{"the query", "GET", "/v1/realtime?model=MODEL", "", ""},
	{"the query beside the body", "POST", "/v1/chat/completions?model=MODEL", "", `{"model":"m","messages":[]}`},
	{"the query, escaped", "POST", "/v1/x?mod%65l=MODEL", "", "{}"},
	{"the path", "GET", "/v1/models/MODEL", "", ""},
	{"the path of another verb", "DELETE", "/v1/models/MODEL", "", ""},
	{"the path of the open inference protocol", "POST", "/v2/models/MODEL/infer", "", `{}`},
	{"a header", "POST", "/v1/chat/completions", "", `{"messages":[]}`},
	{"a header beside the body", "POST", "/v1/chat/completions", "", `{"model":"m","messages":[]}`},
}

func (w way) ask(r *rig, key, model string) (*http.Response, string) {
	headers := []string{"Authorization", "Bearer " + key}
	if w.contentType != "" {
		headers = append(headers, "Content-Type", w.contentType)
	}
	if strings.HasPrefix(w.name, "a header") {
		headers = append(headers, "X-Warmpath-Model", model)
	}
	return r.do(w.method, strings.ReplaceAll(w.path, "MODEL", model),
		strings.ReplaceAll(w.body, "MODEL", model), headers...)
}

// TestModelsOfKeys: in every way to name a model, one that a key or its tenant may not use is answered as one that does
// not exist, and reaches no engine; others are served.
func TestModelsOfKeys(t *testing.T) {
	r, engines := keyed(t)
	seen := func() (all []string) {
		for _, e := range engines {
			all = append(all, e.take()...)
		}
		return all
	}
	for _, w := range ways {
		for _, key := range []string{"one", "some", "theirs", "both"} {
			hidden, got := w.ask(r, key, "secret")
			absent, want := w.ask(r, key, "absent")
			if want = strings.ReplaceAll(want, "absent", "secret"); hidden.StatusCode != 404 ||
				absent.StatusCode != 404 || got != want {
				t.Errorf("%s with %q: %d %s\nwant the answer of a model that does not exist: %d %s",
					w.name, key, hidden.StatusCode, got, absent.StatusCode, want)
			}
			if strings.Count(got, "secret") > strings.Count(want, "secret") ||
				strings.Contains(strings.SplitAfter(got, "known models")[1:][0], "secret") {
				t.Errorf("%s with %q is told of the model: %s", w.name, key, got)
			}
			if all := seen(); len(all) > 0 {
				t.Errorf("%s with %q: an engine was asked %q", w.name, key, all)
			}
			if res, body := w.ask(r, key, "m"); res.StatusCode != 200 {
				t.Errorf("%s with %q, of its own model: %d %s", w.name, key, res.StatusCode, body)
			}
			if n := len(seen()); n != 1 && w.path != "/v1/models/MODEL" {
				t.Errorf("%s with %q, of its own model: %d engines were asked", w.name, key, n)
			}
		}
	}
	for _, w := range ways[:1] {
		if res, body := w.ask(r, "all", "secret"); res.StatusCode != 200 {
			t.Errorf("a key without models: %d %s", res.StatusCode, body)
		}
	}
}

// TestListsOfKeys: every list of models has those that the caller may use.
func TestListsOfKeys(t *testing.T) {
	r, _ := keyed(t)
	for key, want := range map[string][]string{
		"one": {"m"}, "some": {"m", "n"}, "adapter": {"a"}, "none": {}, "theirs": {"m", "n"}, "both": {"m"},
		"all": {"m", "a", "n", "secret"},
	} {
		for _, path := range []string{"/v1/models", "/v1/models/", "/models", "/api/tags", "/api/ps"} {
			if key == "all" && !strings.HasPrefix(path, "/v1/") {
				continue // an engine's own
			}
			res, body := r.do("GET", path, "", "Authorization", "Bearer "+key)
			var list struct{ Data, Models []struct{ ID, Name string } }
			if err := json.Unmarshal([]byte(body), &list); err != nil || res.StatusCode != 200 {
				t.Errorf("%s with %q: %d %s", path, key, res.StatusCode, body)
			}
			got := []string{}
			for _, m := range append(list.Data, list.Models...) {
				got = append(got, m.ID+strings.Repeat(m.Name, 1-min(1, len(m.ID))))
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s with %q: %q, want %q", path, key, got, want)
			}
		}
	}
}

// computed lists the models that an engine computes for a request that it got, as listing notes them. base is the
// engine's own for what names none. SGLang reads none but lora_path in its own API; FastAPI and llama.cpp read no
// header and no query beside a body.
func computed(asked, base string) (models []string) {
	method, rest, _ := strings.Cut(asked, " ")
	target, body, _ := strings.Cut(rest, " ")
	path, _, _ := strings.Cut(target, "?")
	if method != "POST" || path == "/tokenize" || path == "/api/show" || path == "/v1/messages/count_tokens" ||
		strings.HasPrefix(path, "/v1/realtime") {
		return nil
	}
	add := func(name any) {
		if s, _ := name.(string); s != "" {
			models = append(models, s)
		} else {
			models = append(models, base)
		}
	}
	var is map[string]any
	if err := json.Unmarshal([]byte(strings.TrimLeft(body, "\ufeff")), &is); err != nil {
		if of, ok := strings.CutPrefix(path, "/v2/models/"); ok {
			body = "model=" + strings.TrimSuffix(of, "/infer")
		}
		if i := strings.LastIndex(body, "model="); i >= 0 {
			add(body[i+len("model="):])
			return models
		}
		_, after, _ := strings.Cut(body, "name=\"model\"\r\n\r\n")
		after, _, _ = strings.Cut(after, "\r\n")
		add(after)
		return models
	}
	if path != "/generate" && path != "/encode" {
		if of, ok := strings.CutPrefix(path, "/v2/models/"); ok {
			return []string{strings.TrimSuffix(of, "/infer")}
		}
		if list, ok := is["requests"].([]any); ok {
			for _, r := range list {
				add(r.(map[string]any)["params"].(map[string]any)["model"])
			}
			return models
		}
		add(is["model"])
	} else if list, ok := is["lora_path"].([]any); ok && len(list) > 0 {
		for _, name := range list {
			add(name)
		}
	} else {
		add(is["lora_path"])
	}
	return models
}

// unread are ways to name a model, or several, where an engine does not read them, or not all.
var unread = []way{
	{"a header, without a body's", "POST", "/v1/chat/completions", "", `{"messages":[]}`},
	{"a header, and null", "POST", "/v1/completions", "", `{"model":null,"prompt":"x"}`},
	{"a header, and nothing", "POST", "/v1/messages", "", `{"model":"","messages":[]}`},
	{"a header, and a name first", "POST", "/v1/responses", "", `{"model":"MODEL","input":"x","model":null}`},
	{"the query, without a body's", "POST", "/v1/chat/completions?model=MODEL", "", `{"messages":[]}`},
	{"the query, embeddings", "POST", "/v1/embeddings?model=MODEL", "", `{"input":"x"}`},
	{"the query, ollama", "POST", "/api/chat?model=MODEL", "", `{"messages":[]}`},
	{"the query, an empty body", "POST", "/api/generate?model=MODEL", "", `{}`},
	{"nothing", "POST", "/v1/chat/completions", "", `{"messages":[]}`},
	{"the query of rerank", "POST", "/v1/rerank?model=MODEL", "", `{"query":"x","documents":[]}`},
	{"a header of rerank", "POST", "/v1/rerank", "", `{"query":"x","documents":[]}`},
	{
		"null of rerank", "POST", "/v1/rerank?model=MODEL", "",
		`{"model":"MODEL","query":"x","documents":[],"model":null}`,
	},
	{
		"the query of a form", "POST", "/v1/audio/transcriptions?model=MODEL", "multipart/form-data; boundary=x",
		strings.ReplaceAll(form, `"model"`, `"language"`),
	},
	{"a form whose last name is empty", "POST", "/v1/x", "application/x-www-form-urlencoded", `model=MODEL&a=b&model=`},
	{"the query of no JSON", "POST", "/v1/audio/translations?model=MODEL", "application/octet-stream", "x"},
	{"within a batch", "POST", "/v1/messages/batches", "", `{"requests":[{"params":{"model":"MODEL"}},{"params":{}}]}`},
	{"SGLang's own API", "POST", "/generate", "", `{"text":"x","model":"MODEL"}`},
	{"SGLang's own API, by header", "POST", "/generate", "", `{"text":"x"}`},
	{"SGLang's own API, by query", "POST", "/generate?model=MODEL", "", `{"text":"x"}`},
	{"SGLang's own API, null", "POST", "/generate", "", `{"text":"x","model":"MODEL","lora_path":null}`},
	{"SGLang's own API, empty", "POST", "/generate", "", `{"text":"x","lora_path":""}`},
	{"SGLang's own API, a list", "POST", "/generate", "", `{"text":["x","y"],"lora_path":["MODEL",null]}`},
	{"SGLang's own API, an empty list", "POST", "/generate", "", `{"text":"x","model":"MODEL","lora_path":[]}`},
	{"SGLang's own API, twice", "POST", "/generate", "", `{"text":"x","lora_path":"MODEL","lora_path":null}`},
	{"SGLang's own API, named", "POST", "/generate", "", `{"text":["x","y"],"lora_path":["MODEL","MODEL"]}`},
	{"SGLang's embeddings", "POST", "/encode", "", `{"text":"x","model":"MODEL"}`},
	{"SGLang's embeddings, named", "POST", "/encode", "", `{"text":"x","lora_path":"MODEL"}`},
}

// TestComputedForKeys: whatever a request says where, engines compute only models that its key may use. Where the API
// has a member for it, the model that is meant gets there.
func TestComputedForKeys(t *testing.T) {
	engines := []*listing{{models: []string{"m", "a"}}, {models: []string{"n", "k"}}, {models: []string{"b"}}}
	parents := [][]string{{"", "m"}, {"", ""}, {"hidden"}}
	keys := identity.Keys{}
	asks := []struct {
		model  string
		models fleet.Names // of the key
	}{{"m", fleet.Names{"m"}}, {"a", fleet.Names{"a"}}, {"n", fleet.Names{
		"n",
	}}, {"k", fleet.Names{"k"}}, {"k", fleet.Names{"m", "k"}}, {"a", fleet.Names{"n", "a"}}, {"b", fleet.Names{"b"}}}
	for _, ask := range asks {
		keys.Add(sha256.Sum256([]byte(fmt.Sprint(ask.models))), identity.Key{Tenant: "blue", Models: ask.models})
	}
	r := newRig(t, proxy.Config{Tenants: &identity.Tenants{Keys: keys, Required: true}}, engines[0].ServeHTTP,
		engines[1].ServeHTTP, engines[2].ServeHTTP)
	for i, e := range engines {
		report := fleet.Report{Healthy: true, Kind: fleet.KindVLLM}
		for j, m := range e.models {
			report.Models = append(report.Models, fleet.Model{ID: m, Parent: parents[i][j]})
		}
		r.fleet.Observe(route.Probed{Endpoint: fmt.Sprint("e", i), Report: report})
	}
	for _, w := range slices.Concat(ways, unread) {
		if strings.Contains(w.body, `"model":"m"`) || w.name == "a form, twice" {
			continue // only keys for m may
		}
		for _, ask := range asks {
			model, key := ask.model, fmt.Sprint(ask.models)
			res, body := w.ask(r, key, model)
			sent := 0
			for i, e := range engines {
				for _, asked := range e.take() {
					sent++
					for _, got := range computed(asked, cmp.Or(parents[i][0], e.models[0])) {
						if !ask.models.Has(got) {
							t.Errorf("%s with a key for %s: %q was computed for %q", w.name, key, got, asked)
						}
					}
				}
			}
			api := prompt.Classify(w.method, strings.SplitN(w.path, "?", 2)[0])
			base := model == "m" || model == "n"
			serves := base || api.NamesModel() && (w.name != "nothing" || model == "k" && len(ask.models) == 1)
			if serves && res.StatusCode != 200 && !strings.HasPrefix(w.name, "SGLang") ||
				res.StatusCode == 200 && sent != 1 && w.path != "/v1/models/MODEL" {
				t.Errorf("%s of %q with a key for %s: %d %s, %d engines were asked",
					w.name, model, key, res.StatusCode, body, sent)
			}
			if res.StatusCode != 200 && res.StatusCode != 404 && w.name != "nothing" {
				t.Errorf("%s of %q with a key for %s: %d %s", w.name, model, key, res.StatusCode, body)
			}
		}
	}
}

// TestAliasesOfKeys: a key for an alias may have an engine compute the model that the alias stands for, where the
// engine reads no name too.
func TestAliasesOfKeys(t *testing.T) {
	keys := identity.Keys{}
	for _, name := range []string{"first", "second"} {
		keys.Add(sha256.Sum256([]byte(name)), identity.Key{Tenant: "blue", Models: fleet.Names{name}})
	}
	e := &listing{models: []string{"n", "k"}}
	r := newRig(t, proxy.Config{Tenants: &identity.Tenants{Keys: keys}}, e.ServeHTTP)
	r.fleet.Observe(route.Configured{Config: route.Config{
		Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10,
		Aliases: []fleet.Alias{{Name: "first", Models: []string{"n"}}, {Name: "second", Models: []string{"k"}}},
	}})
	r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{
		Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "n"}, {ID: "k"}},
	}})
	for _, w := range []way{
		{"the body", "POST", "/v1/chat/completions", "", `{"model":"MODEL","messages":[]}`},
		{"a header", "POST", "/v1/chat/completions", "", `{"messages":[]}`},
		{"the query", "POST", "/v1/embeddings?model=MODEL", "", `{"input":"x"}`},
		{"the body of another path", "POST", "/v1/rerank", "", `{"model":"MODEL","query":"x","documents":[]}`},
		{"the query of another path", "POST", "/v1/rerank?model=MODEL", "", `{"query":"x","documents":[]}`},
		{"a header of another path", "POST", "/v1/audio/speech", "", `{"input":"x"}`},
		{"SGLang's own API", "POST", "/generate", "", `{"text":"x","model":"MODEL"}`},
	} {
		for alias, model := range map[string]string{"first": "n", "second": "k"} {
			res, body := w.ask(r, alias, alias)
			var got []string
			for _, asked := range e.take() {
				got = append(got, computed(asked, "n")...)
			}
			if res.StatusCode == 200 && !slices.Equal(got, []string{model}) ||
				res.StatusCode != 200 && (model == "n" || res.StatusCode != 404) {
				t.Errorf("%s with a key for %q: %d %s, %q was computed", w.name, alias, res.StatusCode, body, got)
			}
		}
	}
}

// TestNoModelOfKeys: a request that names no model is one for what its caller may use.
func TestNoModelOfKeys(t *testing.T) {
	r, engines := keyed(t)
	chat := way{"", "POST", "/v1/chat/completions", "", `{"messages":[]}`}
	generate := way{"", "POST", "/generate", "", `{"text":"x"}`}
	speech := way{"", "POST", "/v1/audio/speech", "", `{"input":"x"}`}
	info := way{"", "GET", "/model_info", "", ""}
	upgrade := way{"", "GET", "/v1/realtime", "", ""}
	batches := way{"", "POST", "/v1/batches", "", `{"endpoint":"/v1/chat/completions"}`}
	for _, tt := range []struct {
		key  string
		w    way
		code string // of the error; "" for none
		at   string // the engines that may be asked
	}{
		{"one", chat, "", "0"},
		{"one", generate, "", "0"},
		{"one", speech, "", "0"},
		{"one", info, "", "0"},
		{"one", batches, "path_not_allowed", ""},
		{"some", chat, "model_required", ""},
		{"some", generate, "", "01"},
		{"some", info, "", "01"},
		{"adapter", chat, "model_required", ""},
		{"adapter", generate, "model_not_found", ""},
		{"adapter", info, "", "0"},
		{"none", chat, "model_not_found", ""},
		{"none", generate, "model_not_found", ""},
		{"none", info, "model_not_found", ""},
		{"theirs", chat, "model_required", ""},
		{"theirs", speech, "", "01"},
		{"both", chat, "", "0"},
		{"all", speech, "", "012"},
		{"all", batches, "", "012"},
		{"all", upgrade, "", "012"},
	} {
		for range 8 {
			res, body := tt.w.ask(r, tt.key, "")
			if tt.code == "" && res.StatusCode != 200 && res.StatusCode != 400 ||
				tt.code != "" && !strings.Contains(body, `"`+tt.code+`"`) {
				t.Errorf("%s %s with %q: %d %s, want %q", tt.w.method, tt.w.path, tt.key, res.StatusCode, body, tt.code)
			}
			if strings.Contains(body, "secret") {
				t.Errorf("%s with %q is told of the model: %s", tt.w.path, tt.key, body)
			}
			for i, e := range engines {
				if n := len(e.take()); n > 0 && !strings.Contains(tt.at, fmt.Sprint(i)) {
					t.Errorf("%s %s with %q: engine %d was asked", tt.w.method, tt.w.path, tt.key, i)
				}
			}
		}
	}
}

// TestSocketsOfKeys: the messages of a WebSocket are not read, so that no engine may have a model that the caller may
// not use.
func TestSocketsOfKeys(t *testing.T) {
	for key, want := range map[string]int{"one": 426, "some": 200, "none": 426} {
		r, _ := keyed(t)
		model := map[string]string{"one": "m", "some": "n", "none": "unserved"}[key]
		res, body := r.raw("GET /v1/realtime?model=" + model + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key +
			"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		if res == nil || res.StatusCode != want {
			t.Errorf("%s: %v %s, want %d", key, res, body, want)
		}
	}
}

// TestKeysEnd: a key is good until its end and then refused, whatever else names the tenant.
func TestKeysEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		keys := identity.Keys{}
		keys.Add(sha256.Sum256([]byte("k")), identity.Key{Tenant: "blue", Ends: time.Now().Add(time.Minute)})
		r := newRig(t, proxy.Config{Tenants: &identity.Tenants{Keys: keys, Header: "X-Tenant"}},
			answers(200, chatAnswer))
		ask := func() (*http.Response, string) {
			return r.post("/v1/chat/completions", chatBody, "Authorization", "Bearer k", "X-Tenant", "red")
		}
		if res, body := ask(); res.StatusCode != 200 {
			t.Fatalf("before the end: %d %s", res.StatusCode, body)
		}
		used := func() time.Time {
			for _, k := range keys {
				return k.Used()
			}
			return time.Time{}
		}
		if got := used(); !got.Equal(time.Now()) {
			t.Errorf("last used %v", got)
		}
		time.Sleep(time.Minute)
		res, body := ask()
		if res.StatusCode != 401 || !strings.Contains(body, `"key_ended"`) ||
			!strings.Contains(res.Header.Get("Www-Authenticate"), "invalid_token") {
			t.Errorf("after the end: %d %s %v", res.StatusCode, body, res.Header)
		}
		if s := r.last(2); s.Error != "key_ended" || r.last(1).Key == "" {
			t.Errorf("%+v", s)
		}
		if got := used(); got.Equal(time.Now()) {
			t.Error("a refused request counts as a use")
		}
	})
}

// TestAdaptersOfSGLang: SGLang is told the adapter that a request is for where it reads one. Where it reads none, a key
// for the adapter does not get the base.
func TestAdaptersOfSGLang(t *testing.T) {
	keys := identity.Keys{}
	keys.Add(sha256.Sum256([]byte("all")), identity.Key{Tenant: "blue"})
	keys.Add(sha256.Sum256([]byte("adapter")), identity.Key{Tenant: "blue", Models: fleet.Names{"a"}})
	e := &listing{models: []string{"m", "a"}}
	r := newRig(t, proxy.Config{Tenants: &identity.Tenants{Keys: keys}}, e.ServeHTTP)
	for _, kind := range []fleet.Kind{fleet.KindSGLang, fleet.KindVLLM} {
		r.as(kind, "")
		r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{
			Healthy: true, Kind: kind, Models: []fleet.Model{{ID: "m"}, {ID: "a", Parent: "m"}},
		}})
		for _, w := range []struct {
			path, body, told string
			reads            bool // SGLang has lora_path there
		}{
			{
				"/v1/chat/completions", `{"model":"MODEL","messages":[]}`,
				`{"lora_path":"a","model":"a","messages":[]}`, true,
			},
			{
				"/v1/chat/completions", `{"model":"MODEL","lora_path":null,"messages":[]}`,
				`{"model":"a","lora_path":"a","messages":[]}`, true,
			},
			{
				"/v1/chat/completions", `{"model":"MODEL","lora_path":"MODEL","messages":[]}`,
				`{"model":"a","lora_path":"a","messages":[]}`, true,
			},
			{
				"/v1/completions", `{"model":"MODEL","prompt":"x","lora_path":"MODEL","lora_path":null}`,
				`{"model":"a","prompt":"x","lora_path":"a","lora_path":"a"}`, true,
			},
			{"/v1/embeddings", `{"model":"MODEL","input":"x"}`, `{"lora_path":"a","model":"a","input":"x"}`, true},
			{"/v1/responses", `{"model":"MODEL","input":"x"}`, "", false},
			{"/v1/messages", `{"model":"MODEL","max_tokens":1,"messages":[]}`, "", false},
		} {
			for _, key := range []string{"all", "adapter"} {
				for _, model := range []string{"a", "m"} {
					as := strings.ReplaceAll(w.body, "MODEL", model)
					res, answer := r.post(w.path, as, "Authorization", "Bearer "+key)
					got := strings.Join(e.take(), "")
					want := "POST " + w.path + " " + as
					switch sglang := kind == fleet.KindSGLang && model == "a"; {
					case key == "adapter" && model == "m", key == "adapter" && sglang && !w.reads:
						want = ""
					case sglang && w.reads:
						want = "POST " + w.path + " " + w.told
					}
					if got != want || (res.StatusCode == 200) != (want != "") || want == "" && res.StatusCode != 404 {
						t.Errorf("%s %s with %s: %d %s, the engine got %s, want %s",
							kind, as, key, res.StatusCode, answer, got, want)
					}
				}
			}
		}
	}
}

// TestAdaptersGoWhereTheyAre: an adapter that a request names in one of SGLang's own ways is computed by an engine that
// has it, if the caller may use it.
func TestAdaptersGoWhereTheyAre(t *testing.T) {
	keys := identity.Keys{}
	keys.Add(sha256.Sum256([]byte("all")), identity.Key{Tenant: "blue"})
	keys.Add(sha256.Sum256([]byte("m*")), identity.Key{Tenant: "blue", Models: fleet.Names{"m*"}})
	without, with := &listing{models: []string{"m"}}, &listing{models: []string{"m", "a"}}
	r := newRig(t, proxy.Config{Tenants: &identity.Tenants{Keys: keys}}, without.ServeHTTP, with.ServeHTTP)
	for _, kind := range []fleet.Kind{fleet.KindSGLang, fleet.KindVLLM} {
		for name, models := range map[string][]fleet.Model{
			"e0": {{ID: "m"}}, "e1": {{ID: "m"}, {ID: "a", Parent: "m"}},
		} {
			is := fleet.Report{Healthy: true, Kind: kind, Models: models}
			r.fleet.Observe(route.Probed{Endpoint: name, Report: is})
		}
		for _, c := range []struct {
			key, path, body string
			want            string // of SGLang: what its engine with the adapter got; "" for 404
		}{
			{"all", "/generate", `{"text":"x","lora_path":"a"}`, `{"text":"x","lora_path":"a"}`},
			{
				"all", "/v1/chat/completions", `{"model":"m","lora_path":"a","messages":[]}`,
				`{"model":"a","lora_path":"a","messages":[]}`,
			},
			{
				"all", "/v1/chat/completions", `{"model":"m:a","messages":[]}`,
				`{"lora_path":"a","model":"a","messages":[]}`,
			},
			{"all", "/v1/chat/completions", `{"model":"m:b","messages":[]}`, ""},
			{"all", "/v1/responses", `{"model":"m:a","input":"x"}`, ""}, // which reads no adapter
			{"m*", "/v1/chat/completions", `{"model":"m:a","messages":[]}`, ""},
			{"m*", "/v1/chat/completions", `{"model":"m","lora_path":"a","messages":[]}`, ""},
		} {
			for range 4 { // whichever engine is next
				res, answer := r.post(c.path, c.body, "Authorization", "Bearer "+c.key)
				elsewhere, there := without.take(), strings.Join(with.take(), "")
				switch {
				case kind == fleet.KindVLLM:
					if got := strings.Join(append(elsewhere, there), ""); got != "" && !strings.HasSuffix(got, c.body) {
						t.Errorf("vLLM: %s with %s: the engine got %s", c.body, c.key, got)
					}
				case len(elsewhere) > 0, there != "" != (c.want != ""), !strings.HasSuffix(there, c.want),
					c.want == "" && res.StatusCode != 404:
					t.Errorf("%s with %s: %d %s, the engines got %q and %q, want %s",
						c.body, c.key, res.StatusCode, answer, elsewhere, there, c.want)
				}
			}
		}
	}
}

// TestListsOfOllama: what Ollamas have and what they have in memory are lists of the fleet. A model has one name there,
// as in Ollama's own, though it is served by two: without a tag it is ":latest".
func TestListsOfOllama(t *testing.T) {
	short := identity.Keys{}
	short.Add(sha256.Sum256([]byte("short")), identity.Key{Tenant: "a", Models: []string{"m"}})
	short.Add(sha256.Sum256([]byte("all")), identity.Key{Tenant: "b"})
	models := [][]string{{"m:latest", "n:7b"}, {"m:latest", "k:latest"}}
	every := []string{"k:latest", "m:latest", "n:7b"}
	for _, c := range []struct {
		keys identity.Keys
		key  string
		path string
		want []string
	}{
		{nil, "", "/v1/models", every},
		{nil, "", "/api/tags", every},
		{nil, "", "/api/ps", every},
		{short, "all", "/v1/models", every},
		{short, "all", "/api/ps", every},
		{short, "short", "/v1/models", []string{"m"}},
	} {
		var cfg proxy.Config
		if c.keys != nil {
			cfg.Tenants = &identity.Tenants{Keys: c.keys, Required: true}
		}
		r := newRig(t, cfg, (&listing{models: models[0]}).ServeHTTP, (&listing{models: models[1]}).ServeHTTP)
		for i, s := range r.fleet.Status() {
			report := fleet.Report{Healthy: true, Kind: fleet.KindOllama}
			for _, id := range models[i] {
				report.Models = append(report.Models, fleet.Model{ID: id},
					fleet.Model{ID: strings.TrimSuffix(id, ":latest")})
			}
			r.fleet.Observe(route.Probed{Endpoint: s.Endpoint.Name, Report: report})
		}
		res, body := r.do("GET", c.path, "", "Authorization", "Bearer "+c.key)
		var list struct{ Data, Models []struct{ ID, Name string } }
		if err := json.Unmarshal([]byte(body), &list); err != nil || res.StatusCode != 200 {
			t.Fatalf("%s with %q: %d %s", c.path, c.key, res.StatusCode, body)
		}
		var got []string
		for _, m := range append(list.Data, list.Models...) {
			got = append(got, cmp.Or(m.ID, m.Name))
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s with %q: %q, want %q", c.path, c.key, got, c.want)
		}
		for _, name := range []string{"m", "m:latest"} {
			if res, body := r.do("GET", "/v1/models/"+name, "",
				"Authorization", "Bearer "+c.key); res.StatusCode != 200 && (name == "m" || c.key != "short") {
				t.Errorf("/v1/models/%s with %q: %d %s", name, c.key, res.StatusCode, body)
			}
		}
	}
}
