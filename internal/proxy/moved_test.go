package proxy_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// relists has the router call relist where it has the lists of models read again.
func (r *rig) relists(engines http.RoundTripper, relist func(endpoint string) func(context.Context)) {
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		r.t.Fatal(err)
	}
	r.proxy = proxy.New(proxy.Options{
		Config: proxy.Config{Paths: paths(r.t, "*")}, Fleet: r.fleet, Transport: engines, Parser: parser,
		Log: slog.New(slog.DiscardHandler), Relist: relist,
	})
}

// TestAdapterMoves: while an adapter is unloaded from one engine and loaded into another, and no list has been read
// since, requests for it wait for the lists, and no longer. One that is nowhere, or of which no engine was known, is
// refused at once. A client that leaves meanwhile gets no answer, and counts as 499 instead of 404.
func TestAdapterMoves(t *testing.T) {
	const gone = `{"error":{"message":"The model ` + "`ad`" + ` does not exist.","type":"NotFoundError","code":404}}`
	for name, tt := range map[string]struct {
		engines int
		loaded  time.Duration // when its new engine has it; 0 for never
		listed  bool          // at first, by its old engine
		leaves  time.Duration // when clients do
		status  int
		took    time.Duration // ms, the first request
	}{
		"to the other engine":          {2, 300 * time.Millisecond, true, time.Hour, 200, 340},
		"nowhere":                      {2, 0, true, time.Hour, 404, 1500},
		"from the only engine":         {1, 0, true, time.Hour, 404, 0},
		"a model that no engine lists": {2, 0, false, time.Hour, 404, 0},
		"after its clients have left":  {2, 300 * time.Millisecond, true, 150 * time.Millisecond, 499, 150},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				engines := wire(func(r *http.Request) (*http.Response, error) {
					if r.Host == "e1" && tt.loaded > 0 && time.Since(began) >= tt.loaded {
						return says(chatAnswer)
					}
					return &http.Response{
						StatusCode: 404, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(gone)), ContentLength: int64(len(gone)),
					}, nil
				})
				declared := []fleet.Endpoint{
					{Name: "e0", URL: "http://e0", Weight: 1}, {Name: "e1", URL: "http://e1", Weight: 1},
				}
				r := newFleet(t, proxy.Config{}, engines, declared[:tt.engines])
				lists := func(endpoint string, models ...string) {
					report := fleet.Report{Healthy: true, Kind: fleet.KindVLLM}
					for _, m := range models {
						report.Models = append(report.Models, fleet.Model{ID: m})
					}
					r.fleet.Observe(route.Probed{Endpoint: endpoint, Report: report})
				}
				if tt.listed {
					lists("e0", "m", "ad")
				}
				r.relists(engines, func(string) func(context.Context) {
					time.AfterFunc(20*time.Millisecond, func() { lists("e0", "m") })
					time.AfterFunc(tt.loaded+40*time.Millisecond, func() {
						if tt.loaded > 0 {
							lists("e1", "m", "ad")
						}
					})
					return func(context.Context) {}
				})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				time.AfterFunc(tt.leaves, leave)
				ask := func(ctx context.Context) (status int, took time.Duration) {
					defer func() { _ = recover() }() // an unanswered request's handler panics
					w, asked := httptest.NewRecorder(), time.Now()
					defer func() { status, took = w.Code, time.Since(asked) }()
					r.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
						strings.NewReader(strings.ReplaceAll(chatBody, `"m"`, `"ad"`))).WithContext(ctx))
					return 0, 0
				}
				second := make(chan struct{})
				go func() { // it comes when nobody lists the model
					defer close(second)
					time.Sleep(100 * time.Millisecond)
					ask(ctx)
				}()
				if _, took := ask(ctx); took != tt.took*time.Millisecond {
					t.Errorf("after %v, want %v ms", took, int(tt.took))
				}
				<-second
				for n := range 2 {
					if s := r.last(n + 1); s.Status != tt.status {
						t.Errorf("request %d: %d, want %d", n+1, s.Status, tt.status)
					}
				}
				time.Sleep(10 * time.Second)
				want := tt.status
				if want == 499 {
					want = 200
				}
				if status, took := ask(t.Context()); status != want || took > 0 {
					t.Errorf("later: %d after %v, want %d at once", status, took, want)
				}
				time.Sleep(time.Second)
				r.booksBalance()
			})
		})
	}
}

// TestJustLoaded: a request for a model that no engine has listed waits for the lists that are asked for then, and no
// longer than they are waited for elsewhere.
func TestJustLoaded(t *testing.T) {
	for name, tt := range map[string]struct {
		answers time.Duration // the engine
		loaded  bool
		status  int
		took    time.Duration
	}{
		"it lists the model":         {30 * time.Millisecond, true, 200, 30 * time.Millisecond},
		"it does not":                {30 * time.Millisecond, false, 404, 30 * time.Millisecond},
		"it lists nothing in time":   {time.Minute, true, 404, 1500 * time.Millisecond},
		"no engine is asked so soon": {0, false, 404, 0},
		"who asked first had it all": {0, true, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				declared := []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}}
				engines := wire(func(*http.Request) (*http.Response, error) { return says(chatAnswer) })
				r := newFleet(t, proxy.Config{}, engines, declared)
				lists := func(models ...fleet.Model) {
					r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{
						Healthy: true, Kind: fleet.KindVLLM, Models: models,
					}})
				}
				lists(fleet.Model{ID: "m"})
				r.relists(engines, func(string) func(context.Context) {
					return func(ctx context.Context) {
						select {
						case <-time.After(tt.answers):
						case <-ctx.Done():
							return
						}
						if tt.loaded {
							lists(fleet.Model{ID: "m"}, fleet.Model{ID: "ad", Parent: "m"})
						}
					}
				})
				w, asked := httptest.NewRecorder(), time.Now()
				r.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
					strings.NewReader(strings.ReplaceAll(chatBody, `"m"`, `"ad"`))))
				if took := time.Since(asked); w.Code != tt.status || took != tt.took {
					t.Errorf("%d after %v, want %d after %v", w.Code, took, tt.status, tt.took)
				}
				r.booksBalance()
			})
		})
	}
}

// TestLackedModel: the list of an engine that lacks a model is read again also where the request may not be tried
// again, and all lists where the last endpoint with it has left. No request waits for a name that no engine lists.
func TestLackedModel(t *testing.T) {
	const gone = `{"error":{"message":"The model ` + "`ad`" + ` does not exist.","type":"NotFoundError","code":404}}`
	for name, tt := range map[string]struct {
		retries int
		first   fleet.Report
		leaves  bool
		want    string // whose lists are read again; all are for ""
		status  int
	}{
		"no retries": {-1, fleet.Report{Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "ad"}}}, false, `"e0"`, 404},
		"any name":   {0, fleet.Report{Kind: fleet.KindOther}, false, `""`, 404},
		"it leaves":  {0, fleet.Report{Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "ad"}}}, true, `""`, 503},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engines := wire(func(*http.Request) (*http.Response, error) {
					return &http.Response{
						StatusCode: 404, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(gone)), ContentLength: int64(len(gone)),
					}, nil
				})
				rules := route.Config{Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10}
				declared := []fleet.Endpoint{
					{Name: "e0", URL: "http://e0", Weight: 1},
					{Name: "e1", URL: "http://e1", Weight: 1, Kind: fleet.KindVLLM},
				}
				r := newRouter(t, proxy.Config{}, engines, rules, declared, func(k fleet.Kind) fleet.Report {
					if k == fleet.KindVLLM {
						return fleet.Report{Kind: k, Models: []fleet.Model{{ID: "m"}}}
					}
					return tt.first
				})
				if tt.leaves {
					r.fleet.Observe(route.Declared{Source: "test", Endpoints: declared[1:]})
				}
				parser, err := prompt.Identity{}.Parser()
				if err != nil {
					t.Fatal(err)
				}
				var relisted []string
				r.proxy = proxy.New(proxy.Options{
					Config: proxy.Config{Paths: paths(t, "*"), Retries: tt.retries}, Fleet: r.fleet,
					Transport: engines, Parser: parser, Log: slog.New(slog.DiscardHandler),
					Relist: func(endpoint string) func(context.Context) {
						relisted = append(relisted, strconv.Quote(endpoint))
						return func(context.Context) {}
					},
				})
				w, asked := httptest.NewRecorder(), time.Now()
				r.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
					strings.NewReader(strings.ReplaceAll(chatBody, `"m"`, `"ad"`))))
				if took := time.Since(asked); w.Code != tt.status || took > 0 {
					t.Errorf("%d after %v, want %d at once", w.Code, took, tt.status)
				}
				if got := strings.Join(relisted, " "); got != tt.want {
					t.Errorf("the lists of %s are read again, want %s", got, tt.want)
				}
				r.booksBalance()
			})
		})
	}
}
