package enginetest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	simtext "github.com/warmpath/warmpath/sim/text"
)

func TestMain(m *testing.M) {
	// After a 413 the HTTP server itself lingers for half a second, so that the client can read the answer.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// rig is one simulated engine on a loopback port, and a client for it.
type rig struct {
	t      *testing.T
	engine *enginetest.Server
	url    string
	client *http.Client
}

func start(t *testing.T, o enginetest.Options) *rig {
	t.Helper()
	if o.Speed == 0 {
		o.Speed = 2000
	}
	if o.Models == nil {
		o.Models = []string{"m"}
	}
	s, err := enginetest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, engine: s, url: url, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		_ = s.Close()
	})
	return r
}

// do sends a request; with a body it is a POST unless the path has a method ("DELETE /x").
func (r *rig) do(path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	resp, err := r.try(path, body, header...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s: reading the answer: %v", path, err)
	}
	return resp, string(b)
}

func (r *rig) try(path, body string, header ...string) (*http.Response, error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	if m, p, ok := strings.Cut(path, " "); ok {
		method, path = m, p
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return r.client.Do(req)
}

// object sends a request that must succeed and returns its JSON.
func (r *rig) object(path, body string, header ...string) map[string]any {
	r.t.Helper()
	resp, text := r.do(path, body, header...)
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: status %d: %s", path, resp.StatusCode, text)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		r.t.Fatalf("%s: %v in %s", path, err, text)
	}
	return v
}

// at descends into JSON by names and, as float64 or int, indices.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%v: %q of no object: %v", path, key, v)
			}
			v = m[key]
		case int:
			l, ok := v.([]any)
			if !ok || key >= len(l) {
				t.Fatalf("%v: [%d] of no such list: %v", path, key, v)
			}
			v = l[key]
		}
	}
	return v
}

// number is at for numbers.
func number(t *testing.T, v any, path ...any) int {
	t.Helper()
	f, ok := at(t, v, path...).(float64)
	if !ok {
		t.Fatalf("%v is no number in %v", path, v)
	}
	return int(f)
}

// events reads a stream of server-sent events: the data of each.
func events(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if data, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// chatBody is a chat request with one user message and further fields, each beginning with a comma.
func chatBody(text string, more ...string) string {
	b, _ := json.Marshal(text)
	return `{"model":"m","messages":[{"role":"user","content":` + string(b) + `}]` + strings.Join(more, "") + `}`
}

var allDialects = []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp, fleet.KindOllama}

var longText = simtext.Of(7, 400)
