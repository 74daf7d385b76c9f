package discovery_test

import (
	std "cmp"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strictyaml"
)

func TestParseEndpoint(t *testing.T) {
	f := func(spec string, want ...fleet.Endpoint) {
		t.Helper()
		c, err := discovery.ParseEndpoint(spec)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			return
		}
		got, err := discovery.Endpoints([]discovery.EndpointConfig{c}, discovery.None())
		if err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		for i := range want {
			want[i].IDForm = std.Or(want[i].IDForm, fleet.IDAuto)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", spec, diff)
		}
	}
	f("http://10.0.0.1:8000", fleet.Endpoint{Name: "10.0.0.1:8000", URL: "http://10.0.0.1:8000", Weight: 1})
	f("localhost:8000", fleet.Endpoint{Name: "localhost:8000", URL: "http://localhost:8000", Weight: 1})
	f("https://Engine.Example/", fleet.Endpoint{Name: "engine.example:443", URL: "https://engine.example", Weight: 1})
	f("HTTP://a/x//", fleet.Endpoint{Name: "a:80_x", URL: "http://a/x", Weight: 1})
	f("http://a/x%2Cy", fleet.Endpoint{Name: "a:80_x_2Cy", URL: "http://a/x%2Cy", Weight: 1})
	f("http://[::1]:9", fleet.Endpoint{Name: "[::1]:9", URL: "http://[::1]:9", Weight: 1})
	f("https://a/qwen3-8b.fp8/", fleet.Endpoint{Name: "a:443_qwen3-8b.fp8", URL: "https://a/qwen3-8b.fp8", Weight: 1})
	f("http://a:1/team/x%20y~z", fleet.Endpoint{Name: "a:1_team_x_20y_z", URL: "http://a:1/team/x%20y~z", Weight: 1})
	f("http://a:1,weight=0,name=b,kind=sglang,models=m1+m2,api_key=k", fleet.Endpoint{
		Name: "b", URL: "http://a:1", Kind: fleet.KindSGLang, Models: []string{"m1", "m2"}, APIKey: "k",
	})
	f("http://a:1,models=m1+*", fleet.Endpoint{
		Name: "a:1", URL: "http://a:1", Weight: 1, Models: []string{"m1"}, AnyModel: true,
	})
	f("http://a:1,models=*", fleet.Endpoint{Name: "a:1", URL: "http://a:1", Weight: 1, AnyModel: true})
	f("a:1,ranks=2,weight=.5",
		fleet.Endpoint{Name: "a:1/rank0", URL: "http://a:1", Weight: 0.5, Part: fleet.Part{Kind: fleet.Rank}},
		fleet.Endpoint{Name: "a:1/rank1", URL: "http://a:1", Weight: 0.5, Part: fleet.Part{Kind: fleet.Rank, Index: 1}})
	f("a:1,name=l,slots=1,kind=llamacpp",
		fleet.Endpoint{
			Name: "l/slot0", URL: "http://a:1", Weight: 1, Kind: fleet.KindLlamaCpp, Part: fleet.Part{Kind: fleet.Slot},
		})
	f("a:1,kind=trtllm,conversation_id=disaggregated_params", fleet.Endpoint{
		Name: "a:1", URL: "http://a:1", Weight: 1, Kind: fleet.KindTRTLLM, IDForm: fleet.IDDisagg,
	})
	if c, err := discovery.ParseEndpoint("a:1,conversation_id=off"); err != nil {
		t.Error(err)
	} else if got, _ := discovery.Endpoints([]discovery.EndpointConfig{c},
		discovery.None()); got[0].IDForm != fleet.IDUnknown {
		t.Errorf("off: %q", got[0].IDForm)
	}
}

func TestParseEndpointFaults(t *testing.T) {
	for spec, want := range map[string]string{
		"":                             "is missing",
		"ftp://a":                      "must start with http://, https:// or unix:///",
		"http://":                      "has no host",
		"http://:80":                   "has no host",
		"http://a:":                    "empty port",
		"http://a:99999":               "between 1 and 65535",
		"http://a:0":                   "between 1 and 65535",
		"http://a:x":                   "is not a URL",
		"http://a?b=c":                 "query",
		"http://a#b":                   "fragment",
		"http://a:1/v1/":               "ends in /v1, which is part of requests; use http://a:1",
		"https://a/api/v1":             "ends in /v1, which is part of requests; use https://a/api",
		"http://a/v1/chat/completions": "ends in /v1/chat/completions, which is part of requests; use http://a",
		"http://a/b/v1/responses/":     "ends in /v1/responses, which is part of requests; use http://a/b",
		"http://a/b/api/chat":          "ends in /api/chat, which is part of requests; use http://a/b",
		"http://a b":                   "is not a URL",
		"http://${HOST}:1":             "variables are not replaced here",
		"$(HOST):1":                    "variables are not replaced here",
		"http://$HOST:1":               "variables are not replaced here",
		"{{ .Values.url }}":            "variables are not replaced here",
		"http://[fe80::1%25eth0]:1":    "allowed",
		"http://u:p@a":                 "must not contain a user name",
		"http://a,weight":              "is not key=value",
		"http://a:1,http://b:1":        "\"http://b:1\" is another URL: give each endpoint by itself",
		"http//a:1":                    "did you mean http://a:1?",
		"https:a:1":                    "did you mean https://a:1?",
		"http:/a":                      "did you mean http://a?",
		"http://a,conversation_id=yes": "must be auto, conversation_params, disaggregated_params or off",
		"http://a,weight=x":            "is not a number",
		"http://a,weight=-1":           "must be 0 or more",
		"http://a,weight=NaN":          "must be 0 or more",
		"http://a,weight=1,weight=2":   "given twice",
		"http://a,kind=gpt":            "not a kind of engine; known: vllm",
		"http://a,ranks=-1":            "between 0 and 1024",
		"http://a,slots=2000":          "between 0 and 1024",
		"http://a,ranks=2,slots=2":     "not both",
		"http://a,slots=2,kind=vllm":   "only llamacpp has",
		"http://a,ranks=2,kind=ollama": "has no data-parallel ranks",
		"http://a,ranks=2,kind=trtllm": "leave ranks out",
		"http://a,name=a/b":            "allowed",
		"http://a,colour=red":          `unknown option "colour"`,
		"http://a,models=a+":           "empty name",
	} {
		_, err := discovery.ParseEndpoint(spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", spec, err, want)
		}
	}
	if _, err := discovery.ParseEndpoint("http://user:hush@a"); err == nil ||
		!strings.Contains(err.Error(), "api_key") {
		t.Errorf("a password in the address: %v", err)
	}
}

func TestParseEndpoints(t *testing.T) {
	got, err := discovery.ParseEndpoints(" http://a:1,weight=2,b:2\nhttps://c ,,")
	if err != nil {
		t.Fatal(err)
	}
	two := 2.0
	want := []discovery.EndpointConfig{{URL: "http://a:1", Weight: &two}, {URL: "b:2"}, {URL: "https://c"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := discovery.ParseEndpoints("a:1,b=1 ftp://x"); len(strictyaml.Flatten(err)) != 2 {
		t.Errorf("got %v, want two faults", err)
	}
}

func TestEndpointsReportsEveryFault(t *testing.T) {
	bad := -1.0
	_, err := discovery.Endpoints([]discovery.EndpointConfig{
		{URL: "http://a:1", Name: "x"},
		{URL: "http://b:1", Name: "x"},
		{URL: "http://A:1/"},
		{URL: "ftp://", Kind: "y", Weight: &bad},
		{URL: "c:1", APIKeyEnv: "NO_SUCH_KEY"},
		{URL: "d:1", APIKey: "a", APIKeyFile: "b"},
	}, discovery.None())
	var got []string
	for _, e := range strictyaml.Flatten(err) {
		var fe *discovery.FieldError
		if !errors.As(e, &fe) {
			t.Fatalf("%v is not a FieldError", e)
		}
		got = append(got, fe.Field)
	}
	want := []string{
		"[3].url", "[3].kind", "[3].weight", "[5].api_key", "[1].name", "[2].url", "[4].api_key_env",
		"[5].api_key_file",
	}
	less := func(a, b string) bool { return a < b }
	if diff := cmp.Diff(sorted(want, less), sorted(got, less)); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
}

func TestKeys(t *testing.T) {
	keys := discovery.Keys{
		Lookup:   func(name string) (string, bool) { return " from-" + name + "\n", true },
		ReadFile: func(name string) ([]byte, error) { return []byte("\ufeffin-" + name + "\r\n"), nil },
	}
	got, err := discovery.Endpoints([]discovery.EndpointConfig{
		{URL: "a:1", APIKeyEnv: "K"}, {URL: "b:1", APIKeyFile: "f"}, {URL: "c:1", APIKey: "k"},
	}, keys)
	if err != nil || got[0].APIKey != "from-K" || got[1].APIKey != "in-f" || got[2].APIKey != "k" {
		t.Errorf("got %v, %v", got, err)
	}
	keys.ReadFile = func(string) ([]byte, error) { return []byte("two\nlines"), nil }
	if _, err := discovery.Endpoints([]discovery.EndpointConfig{{URL: "b:1", APIKeyFile: "f"}}, keys); err == nil {
		t.Error("a key of two lines was taken; it would break the header")
	}
}

func TestEndpointsAreBounded(t *testing.T) {
	var list []discovery.EndpointConfig
	for i := range 30 {
		list = append(list, discovery.EndpointConfig{
			URL: "http://a:" + string(rune('1'+i%9)) + strings.Repeat("0", i/9), Ranks: discovery.MaxParts,
		})
	}
	if _, err := discovery.Endpoints(list, discovery.None()); err == nil ||
		!strings.Contains(err.Error(), "more than 20000") {
		t.Errorf("got %v, want the bound", err)
	}
}

// Whatever is accepted has an address in its one spelling and a name that is safe in labels, lists and paths.
func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{
		"http://10.0.0.1:8000", "a:1,weight=2,name=b", "https://[::1]", "http://a/%2f?", "http://[fe80::1%25eth0]:1",
		"//a", "http://a:1/v1", "a,b", "http://ü:1", "http://a\x00b", "p/:\xed[f 80D:$%2C",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		c, err := discovery.ParseEndpoint(spec)
		if err != nil {
			return
		}
		got, err := discovery.Endpoints([]discovery.EndpointConfig{c}, discovery.Keys{
			Lookup: func(string) (string, bool) { return "k", true }, ReadFile: func(string) ([]byte, error) {
				return []byte("k"), nil
			},
		})
		if err != nil {
			t.Fatalf("%q parses but does not expand: %v", spec, err)
		}
		for _, e := range got {
			if e.Name == "" || strings.ContainsAny(e.Name, ", \t\r\n\"?#") || e.Weight < 0 ||
				strings.HasSuffix(e.URL, "/") {
				t.Fatalf("%q made %+v", spec, e)
			}
			again, err := discovery.ParseEndpoint(e.URL)
			if err != nil {
				t.Fatalf("%q made the address %q, which does not parse: %v", spec, e.URL, err)
			}
			twice, err := discovery.Endpoints([]discovery.EndpointConfig{again}, discovery.None())
			if err != nil || twice[0].URL != e.URL {
				t.Fatalf("%q made %q, which makes %v (%v)", spec, e.URL, twice, err)
			}
		}
	})
}

// TestSameAddress: an engine that is given twice is found however its address is written, and whatever its names are.
func TestSameAddress(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"http://127.0.0.1:9001", "http://localhost:9001", true},
		{"localhost:9001", "LOCALHOST:9001", true},
		{"http://localhost", "http://127.0.0.1:80/", true},
		{"http://gpu", "gpu:80", true},
		{"https://gpu", "https://gpu:443", true},
		{"http://[::1]:1", "http://[0:0::1]:1", true},
		{"http://[::ffff:10.0.0.1]:1", "http://10.0.0.1:1", true},
		{"http://127.0.0.1:9001", "http://localhost:9002", false},
		{"http://127.0.0.1:9001", "http://[::1]:9001", false}, // one may listen on each
		{"http://127.0.0.1:9001/a", "http://localhost:9001/b", false},
		{"http://127.0.0.1:9001/a", "http://localhost:9001/a/", true},
		{"http://gpu:1", "http://gpu.local:1", false},
		{"unix:///a", "unix:///b", false},
		{"unix:///a", "unix:///a", true},
	} {
		faults := discovery.Check([]discovery.EndpointConfig{{Name: "a", URL: c.a}, {Name: "b", URL: c.b}})
		same := len(faults) == 1 && strings.Contains(faults[0].Error(), "is the same address as endpoints[0]")
		if same != c.same || len(faults) > 0 && !same {
			t.Errorf("%s and %s: %v", c.a, c.b, faults)
		}
	}
}
