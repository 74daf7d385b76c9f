package trtserve

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
)

// TestStorage: whatever is asked, the store answers as the simplest one would.
func TestStorage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		s := newStorage(func() time.Time { return now }, 10*time.Second)
		mux := http.NewServeMux()
		s.routes(mux, func(http.ResponseWriter, *http.Request, string, string) bool { return true })
		ask := func(method, target, body string) (int, any) {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
			var v struct{ Result any }
			if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			return w.Code, v.Result
		}
		type item struct {
			value string
			until time.Time
		}
		model := map[string]item{}
		status := func(ok bool) int {
			if ok {
				return 200
			}
			return 400
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			maps.DeleteFunc(model, func(_ string, i item) bool { return !now.Before(i.until) })
			key := rapid.SampledFrom([]string{"/a/1", "/a/2", "/b/ü 1"}).Draw(t, "key")
			held, exists := model[key]
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				ttl, overwrite := rapid.IntRange(-1, 6).Draw(t, "ttl"), rapid.Bool().Draw(t, "overwrite")
				body := fmt.Sprintf(`{"key":%q,"value":"v%d","expire_time":-1,"ttl":%d,"overwrite_if_exists":%t}`, key,
					ttl, ttl, overwrite)
				if got, v := ask("POST", "/set", body); got != status(!exists || overwrite) ||
					v != (!exists || overwrite) {
					t.Fatalf("set: %d %v", got, v)
				}
				if !exists || overwrite {
					until := now.Add(time.Duration(ttl) * time.Second)
					if ttl <= 0 {
						until = now.Add(10 * time.Second)
					}
					model[key] = item{fmt.Sprint("v", ttl), until}
				}
			case 1:
				if got, v := ask("GET", "/get?key="+url.QueryEscape(key), ""); got != status(exists) ||
					exists && v != held.value {
					t.Fatalf("get: %d %v", got, v)
				}
			case 2:
				if got, _ := ask("GET", "/expire?ttl=3&key="+url.QueryEscape(key), ""); got != status(exists) {
					t.Fatalf("expire: %d", got)
				}
				if exists {
					model[key] = item{held.value, now.Add(3 * time.Second)}
				}
			case 3:
				if got, _ := ask("DELETE", "/delete?key="+url.QueryEscape(key), ""); got != status(exists) {
					t.Fatalf("delete: %d", got)
				}
				delete(model, key)
			default:
				want := map[string]any{}
				for k, i := range model {
					if strings.HasPrefix(k, "/a/") {
						want[k] = i.value
					}
				}
				got, v := ask("GET", "/get_prefix?key_prefix=/a/", "")
				if got != status(len(want) > 0) || cmp.Diff(any(want), v) != "" {
					t.Fatalf("get_prefix: %d %v, want %v", got, v, want)
				}
				if _, v := ask("GET", "/get_prefix?key_prefix=/a/&keys_only=true", ""); len(want) != len(v2(v)) {
					t.Fatalf("keys: %v, want %v", v, want)
				}
			}
		}
	})
}

// TestStorageIsBounded holds that callers cannot fill the memory, and that what is gone makes room.
func TestStorageIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newStorage(func() time.Time { return now }, 10*time.Second)
	mux := http.NewServeMux()
	s.routes(mux, func(http.ResponseWriter, *http.Request, string, string) bool { return true })
	ask := func(method, target, body string) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
		return w.Code
	}
	set := func(n, size int) int {
		return ask("POST",
			"/set", fmt.Sprintf(`{"key":"k%d","value":%q,"overwrite_if_exists":true}`, n, strings.Repeat("x", size)))
	}
	stored := 0
	for stored < mostKeys && set(stored, 60<<10) == 200 {
		stored++
	}
	if want := mostBytes / (60<<10 + 4); stored != want {
		t.Fatalf("%d values of 60 KiB are stored, want %d", stored, want)
	}
	if got := set(0, 1); got != 200 {
		t.Errorf("a smaller value in place of another: %d", got)
	}
	if got := set(stored, 50<<10); got != 200 {
		t.Errorf("a value in the room of that: %d", got)
	}
	if got := ask("DELETE", "/delete?key=k1", ""); got != 200 {
		t.Errorf("delete: %d", got)
	}
	if got := set(1, 60<<10); got != 200 {
		t.Errorf("a value in the room of one that was deleted: %d", got)
	}
	now = now.Add(time.Minute)
	if got := set(0, 1); got != 200 || s.size != len("k0")+1 {
		t.Errorf("after all have expired: %d, %d bytes are counted", got, s.size)
	}
}

// TestOthersWorkers holds that a caller changes no worker at another address, as it registers none there.
func TestOthersWorkers(t *testing.T) {
	s := serverOf(Config{
		Cluster: true, ClusterName: "c", Inactive: time.Hour,
		Registration: Registration{Allow: guard.Networks{netip.MustParsePrefix("10.0.0.0/8")}},
		Source:       func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() },
	})
	ask := func(from, method, target, body string) int {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.RemoteAddr = from + ":99"
		w := httptest.NewRecorder()
		s.Registry().ServeHTTP(w, r)
		return w.Code
	}
	key := s.prefix() + "w1"
	set := func(from string) int {
		value := fmt.Sprintf(`{"worker_id":"w1","host":%q,"port":8000,"role":0}`, from)
		return ask(from, "POST", "/set", fmt.Sprintf(`{"key":%q,"value":%q,"overwrite_if_exists":true}`, key, value))
	}
	for _, c := range []struct {
		what string
		ask  func(from string) int
	}{
		{"overwrite", set},
		{"expire", func(from string) int { return ask(from, "GET", "/expire?ttl=5&key="+url.QueryEscape(key), "") }},
		{"delete", func(from string) int { return ask(from, "DELETE", "/delete?key="+url.QueryEscape(key), "") }},
	} {
		if got := set("10.0.0.1"); got != 200 {
			t.Fatalf("register: %d", got)
		}
		if got, left := c.ask("10.0.0.2"), s.registered()[key]; got != 403 || !strings.Contains(left, "10.0.0.1") {
			t.Errorf("%s by another: %d, and %q is stored", c.what, got, left)
		}
		if got := c.ask("10.0.0.1"); got != 200 {
			t.Errorf("%s by its own address: %d", c.what, got)
		}
	}
}

func v2(v any) []any { l, _ := v.([]any); return l }

// TestEndpointsOf: an address that is registered twice is one endpoint, and what is no worker of these roles is none.
func TestEndpointsOf(t *testing.T) {
	keys := map[string]string{
		"k1": `{"worker_id":"a","host":"h","port":1,"role":0}`, "k2": `{"worker_id":"b","host":"h","port":1,"role":0}`,
		"k3": `{"worker_id":"c","host":"h","port":1,"role":1}`,
		"k4": `{"worker_id":"d","host":"::1","port":2,"role":1}`,
		"k5": `{"worker_id":"e","host":"h","port":3,"role":2}`, "k6": `{"host":"h","port":70000}`, "k7": `nonsense`,
		"k8": `{"port":4}`,
	}
	var got []string
	for _, e := range endpointsOf(list(keys)) {
		got = append(got, e.URL+" "+e.Role.String())
	}
	if want := []string{"http://[::1]:2 decode", "http://h:1 both"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPerf: what workers report twice, of nobody's request or too late changes nothing, and no more is remembered than
// was asked for.
func TestPerf(t *testing.T) {
	p := newPerf(2, time.Now())
	served := func(id string, o fleet.Outcome) {
		v := live.Served{HandOver: id, Outcome: o, Started: time.Now(), FirstByte: time.Now()}
		v.Prefill.Endpoint.URL, v.Decision.Endpoint.URL = "http://c:1", "http://g:1"
		p.served(&v)
	}
	served("1", fleet.OK)
	served("2", fleet.OK)
	served("9007199254740993", fleet.OK) // the first is forgotten
	served("", fleet.OK)
	served("4", fleet.EngineError)
	p.take("c:1", []byte(`[{"ctx_request_id":1},{"ctx_request_id":9007199254740993,"request_id":5},7,{"ctx_request_id":9007199254740992}]`))
	p.take("elsewhere:1", []byte(`[{"ctx_request_id":9007199254740993}]`))
	p.take("g:1", []byte(`{"no":"list"}`))
	if got := p.complete(); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	p.take("g:1", []byte(`[{"ctx_request_id":9007199254740993,"request_id":6}]`))
	got := p.complete()
	if len(got) != 1 || string(got[0].CtxMetrics) != `{"ctx_request_id":9007199254740993,"request_id":5}` ||
		string(got[0].GenMetrics) != `{"ctx_request_id":9007199254740993,"request_id":6}` {
		t.Errorf("%+v", got)
	}
	if len(p.complete()) != 0 || len(p.requests) != 1 || len(p.order) != 1 {
		t.Errorf("%d requests are remembered", len(p.requests))
	}
}
