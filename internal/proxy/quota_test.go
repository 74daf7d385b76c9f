package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestLimitsAreTold: an answer says what is left, and a request too many is refused in OpenAI's words, with a time that
// is true.
func TestLimitsAreTold(t *testing.T) {
	table := quota.New(time.Now(), quota.Config{
		Tenant: true, Each: quota.Limits{RequestsPerMinute: 2, TokensPerMinute: 100_000},
	})
	r := newRig(t, proxy.Config{Quota: table, Tenants: tenants()},
		answers(200, chatAnswer, "X-Ratelimit-Remaining-Requests", "the engine's"))
	for _, left := range []string{"1", "0"} {
		res, body := r.post("/v1/chat/completions", tenantBody, "X-Tenant-Id", "red")
		if res.StatusCode != 200 || res.Header.Get("x-ratelimit-limit-requests") != "2" ||
			res.Header.Get("x-ratelimit-remaining-requests") != left ||
			res.Header.Get("x-ratelimit-limit-tokens") != "100000" || res.Header.Get("x-ratelimit-reset-tokens") == "" {
			t.Fatalf("%d %v %s", res.StatusCode, res.Header, body)
		}
	}
	res, body := r.post("/v1/chat/completions", tenantBody, "X-Tenant-Id", "red")
	var said struct {
		Error struct{ Message, Type, Code string }
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil || res.StatusCode != 429 ||
		said.Error.Type != "requests" || said.Error.Code != "rate_limit_exceeded" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if after := res.Header.Get("Retry-After"); after != "30" && after != "29" ||
		res.Header.Get("x-ratelimit-remaining-requests") != "0" {
		t.Errorf("Retry-After %q, %v", after, res.Header)
	}
	if s := r.last(3); !s.Refused || s.Limit != "tenants.each.requests_per_minute" || s.Tenant != "red" ||
		!strings.Contains(said.Error.Message, s.Message) {
		t.Errorf("operators are told %+v", s)
	}
	if res, body := r.post("/v1/chat/completions", tenantBody, "X-Tenant-Id", "blue"); res.StatusCode != 200 {
		t.Errorf("another tenant is answered %d %s", res.StatusCode, body)
	}
	if res, _ := r.do("GET", "/v1/models", "", "X-Tenant-Id", "red"); res.StatusCode != 200 {
		t.Errorf("the list of models is answered %d", res.StatusCode)
	}
}

// TestLimitsOfClients: clients behind a trusted proxy have limits each, and what one uses takes nothing from another.
func TestLimitsOfClients(t *testing.T) {
	proxies, err := forwarded.Parse([]string{"127.0.0.1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	table := quota.New(time.Now(), quota.Config{Client: quota.Limits{RequestsPerMinute: 1}})
	r := newRig(t, proxy.Config{Quota: table, Proxies: proxies}, answers(200, chatAnswer))
	for _, c := range []struct {
		at   string
		want int
	}{{"198.51.100.7", 200}, {"198.51.100.7", 429}, {"1.2.3.4, 198.51.100.7", 429}, {"198.51.100.8", 200}} {
		res, body := r.post("/v1/chat/completions", chatBody, "X-Forwarded-For", c.at)
		if res.StatusCode != c.want || c.want == 429 && (!strings.Contains(body, "of this client address") ||
			!strings.Contains(body, "rate_limit_exceeded") || res.Header.Get("Retry-After") == "") {
			t.Errorf("%s: %d %s", c.at, res.StatusCode, body)
		}
	}
}

// responseBody asks for a response, with a prompt that is taken for 20 tokens.
const responseBody = `{"model":"m","input":"eighteen tokens of four bytes each, or so"}`

// responseWith is a response with a status and a usage.
func responseWith(status, usage string) string {
	return `{"id":"resp_1","object":"response","status":` + status + `,"output":[],"usage":` + usage + `}`
}

// TestLimitsAreGivenBack: however a request ends, it is not open any more, and what it used is charged once.
func TestLimitsAreGivenBack(t *testing.T) {
	stream := streams(fmt.Sprintf(`data: {"choices":[{"delta":{"content":"x"}}]}%s`, "\n\n"),
		`data: {"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":2}}`+"\n\n", doneChunk)
	ok, bad := answers(200, chatAnswer), answers(500, `{"error":{"message":"no"}}`)
	leaves := make(chan context.CancelFunc, 1)
	for _, tt := range []struct {
		name             string
		engines          []engineHandler
		path, body       string
		requests, tokens int64 // used
		header           []string
	}{
		{"an answer", []engineHandler{ok}, "/v1/chat/completions", tenantBody, 1, 23, nil},
		{
			"a stream",
			[]engineHandler{stream},
			"/v1/chat/completions", strings.Replace(tenantBody, `"m"`, `"m","stream":true`, 1), 1, 42, nil,
		},
		{"a retry", []engineHandler{bad, ok}, "/v1/chat/completions", tenantBody, 1, 23, nil},
		{"every engine fails", []engineHandler{bad, bad}, "/v1/chat/completions", tenantBody, 1, 0, nil},
		{"the client's fault", []engineHandler{answers(400, `{}`)}, "/v1/chat/completions", tenantBody, 1, 0, nil},
		{
			"an unknown model",
			[]engineHandler{ok},
			"/v1/chat/completions", `{"model":"nobody's","messages":[]}`, 0, 0, nil,
		},
		{"no JSON", []engineHandler{ok}, "/v1/chat/completions", `{`, 0, 0, nil},
		{
			"no such priority",
			[]engineHandler{ok},
			"/v1/chat/completions", tenantBody, 0, 0,
			[]string{"X-Warmpath-Priority", "urgent"},
		},
		{
			"no such deadline",
			[]engineHandler{ok},
			"/v1/chat/completions", tenantBody, 0, 0,
			[]string{"X-Warmpath-Deadline", "-1"},
		},
		{
			"no such wait",
			[]engineHandler{ok},
			"/v1/chat/completions", tenantBody, 0, 0,
			[]string{"X-Warmpath-Wait", "soon"},
		},
		{
			"no such objective",
			[]engineHandler{ok},
			"/v1/chat/completions", tenantBody, 0, 0,
			[]string{"X-Warmpath-Tpot-Ms", "0"},
		},
		{
			"an objective that cannot be met, at usual priority",
			[]engineHandler{ok},
			"/v1/chat/completions", tenantBody, 1, 23,
			[]string{"X-Warmpath-Ttft-Ms", "0.001"},
		},
		{
			"a stream without usage",
			[]engineHandler{streams(chunk("a")+chunk("b"), chunk("c"), doneChunk)},
			"/v1/chat/completions", strings.Replace(tenantBody, `"m"`, `"m","stream":true`, 1), 1, 18 + 3, nil,
		},
		{"a stream that breaks off", []engineHandler{func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Repeat(chunk("a"), 50)) // in one piece
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}}, "/v1/chat/completions", strings.Replace(tenantBody, `"m"`, `"m","stream":true`, 1), 1, 18 + 50, nil},
		{
			"its own deadline passes",
			[]engineHandler{func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}},
			"/v1/chat/completions", strings.Replace(tenantBody, `"m"`, `"m","stream":true`, 1), 1, 18,
			[]string{"X-Warmpath-Deadline", "0.05"},
		},
		{
			"a stored response",
			[]engineHandler{answers(200, responseWith(`"completed"`, `{"input_tokens":40,"output_tokens":2}`))},
			"GET /v1/responses/resp_1", "", 1, 0, nil,
		},
		{
			"a response",
			[]engineHandler{answers(200, responseWith(`"completed"`, `{"input_tokens":40,"output_tokens":2}`))},
			"/v1/responses", responseBody, 1, 42, nil,
		},
		{
			"a response in the background",
			[]engineHandler{answers(200, responseWith(`"queued"`, "null"))},
			"/v1/responses", strings.Replace(responseBody, `{`, `{"background":true,"max_output_tokens":9,`, 1),
			1, 20 + 9, nil,
		},
		{"an unknown path", []engineHandler{ok}, "/v1/other", `{"model":"m"}`, 1, 23, nil},
		{"the client leaves", []engineHandler{func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else its server does not see who leaves
			select {
			case leave := <-leaves:
				leave()
			default:
			}
			<-r.Context().Done()
		}}, "/v1/chat/completions", tenantBody, 1, 18, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const most = 6_000_000
			table := quota.New(time.Now(), quota.Config{
				All: quota.Limits{Requests: 10, RequestsPerMinute: most, TokensPerMinute: most},
			})
			r := newRig(t, proxy.Config{Quota: table}, tt.engines...)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			leaves <- leave
			method, path, ok := strings.Cut(tt.path, " ")
			if !ok {
				method, path = http.MethodPost, tt.path
			}
			req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(tt.header); i += 2 {
				req.Header.Set(tt.header[i], tt.header[i+1])
			}
			if res, err := r.client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			r.booksBalance()
			select {
			case <-leaves:
			default:
			}
			u := table.Usages(time.Now())[0]
			if u.Open != 0 {
				t.Errorf("%d are open", u.Open)
			}
			if u.UsedRequests != tt.requests || u.UsedTokens != tt.tokens {
				t.Errorf("%+v, want %d requests and %d tokens used", u, tt.requests, tt.tokens)
			}
		})
	}
}

// TestQueueIsBounded: who waits for longer than he may, or than he wants to, is told so, the queue takes no more than
// it may, and the engine is blamed for nothing.
func TestQueueIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   quota.Limits
		each bool // the limits are those of each tenant
		most int
		code int      // of "middle", which waits
		with []string // headers and their values
		said string   // the limit that is named to operators
	}{
		{
			"no longer than it may",
			quota.Limits{Wait: 2 * time.Second, Requests: 100},
			false, 0, 503, nil, "limits.wait",
		},
		{"no longer than its tenant may", quota.Limits{Wait: 2 * time.Second}, true, 0, 503, nil, "tenants.each.wait"},
		{
			"no longer than its client wants",
			quota.Limits{Requests: 100},
			false, 0, 504,
			[]string{"X-Warmpath-Deadline", "1.5"},
			"X-Warmpath-Deadline",
		},
		{
			"no longer in the queue than its client wants",
			quota.Limits{Requests: 100},
			false, 0, 503,
			[]string{"X-Warmpath-Wait", "1500ms"},
			"X-Warmpath-Wait",
		},
		{
			"its client would wait for longer",
			quota.Limits{Wait: 2 * time.Second, Requests: 100},
			false, 0, 503,
			[]string{"X-Warmpath-Wait", "1h"},
			"limits.wait",
		},
		{
			"its client would wait for less",
			quota.Limits{Wait: time.Hour, Requests: 100},
			false, 0, 503,
			[]string{"X-Warmpath-Wait", "2"},
			"X-Warmpath-Wait",
		},
		{
			"an objective that cannot be met",
			quota.Limits{Requests: 100},
			false, 0, 429,
			[]string{"X-Warmpath-Ttft-Ms", "500", "X-Warmpath-Priority", "low"},
			"X-Warmpath-Ttft-Ms",
		},
		{"no more than may", quota.Limits{Requests: 100}, false, 1, 429, nil, "limits.waiting"},
		{
			"no more of a tenant than may",
			quota.Limits{QueueClass: fleet.QueueClass{MaxWaiting: 1}},
			true, 0, 429, nil, "tenants.each.waiting",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &oneByOne{}
				limits := quota.Config{All: tt.of}
				if tt.each {
					limits = quota.Config{Tenant: true, Each: tt.of}
				}
				table := quota.New(time.Now(), limits)
				r := newRouter(t, proxy.Config{Quota: table}, wire(engine.RoundTrip), route.Config{
					Policy: func() pick.Policy { return inOrder{} },
					Queue:  route.QueueConfig{Ahead: time.Second, Most: tt.most},
				}, []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}}, func(fleet.Kind) fleet.Report {
					return fleet.Report{Models: []fleet.Model{{ID: "m"}}}
				})
				q, stop := newQueuing(t, r)
				defer synctest.Wait()
				defer stop()
				q.learn()
				q.send(q.ctx, "blocks", 40_000)
				if tt.code == 429 {
					q.send(q.ctx, "first", 12_000)
				}
				go func() {
					w := httptest.NewRecorder()
					req := httptest.NewRequestWithContext(q.ctx, http.MethodPost, "/v1/completions",
						strings.NewReader(fmt.Sprintf(`{"model":"m","stream":true,"prompt":"middle %s"}`,
							strings.Repeat("abc ", 12_000))))
					for i := 0; i < len(tt.with); i += 2 {
						req.Header.Set(tt.with[i], tt.with[i+1])
					}
					r.proxy.ServeHTTP(w, req)
					q.mu.Lock()
					defer q.mu.Unlock()
					q.code["middle"] = w.Code
					if tt.code != 504 && w.Header().Get("Retry-After") == "" {
						t.Error("it is not told when to come again")
					}
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				if q.code["middle"] != tt.code || q.code["blocks"] != 200 || slices.Contains(engine.got, "middle") {
					t.Errorf("answered %v, and the engine got %v", q.code, engine.got)
				}
				if s := r.fleet.Status()[0]; s.Failures != 0 || table.Usages(time.Now())[0].Open != 0 {
					t.Errorf("%d failures, %+v", s.Failures, table.Usages(time.Now()))
				}
				r.booksBalance()
				var refused []live.Served
				for _, s := range r.served {
					if s.Refused {
						refused = append(refused, s)
					}
				}
				if len(refused) != 1 || refused[0].Limit != tt.said || refused[0].Status != tt.code ||
					refused[0].Message == "" || (refused[0].Queued == 0) != (tt.code == 429) {
					t.Errorf("refused: %+v", refused)
				}
			})
		})
	}
}

// TestFloodOfOneTenant: of a tenant that sends 60 prompts at once, the engine gets at most two before each of
// another's, which come later.
func TestFloodOfOneTenant(t *testing.T) {
	for _, running := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			engine := &oneByOne{}
			table := quota.New(time.Now(), quota.Config{
				Tenant: true, Each: quota.Limits{QueueClass: fleet.QueueClass{MaxRunning: running}},
			})
			r := newRouter(t, proxy.Config{Quota: table, Tenants: &identity.Tenants{Header: "X-Tenant-Id"}},
				wire(engine.RoundTrip), route.Config{
					Policy: func() pick.Policy { return inOrder{} },
					Queue:  route.QueueConfig{Ahead: 500 * time.Millisecond},
				}, []fleet.Endpoint{{Name: "e0", URL: "http://e0", Weight: 1}}, func(fleet.Kind) fleet.Report {
					return fleet.Report{Models: []fleet.Model{{ID: "m"}}}
				})
			q, stop := newQueuing(t, r)
			defer synctest.Wait()
			defer stop()
			q.learn()
			ask := func(tenant, name string) {
				go func() {
					defer func() { _ = recover() }()
					req := httptest.NewRequestWithContext(q.ctx, http.MethodPost,
						"/v1/completions", strings.NewReader(fmt.Sprintf(`{"model":"m","stream":true,"prompt":"%s %s"}`,
							name, strings.Repeat("abc ", 5000))))
					req.Header.Set("X-Tenant-Id", tenant)
					r.proxy.ServeHTTP(httptest.NewRecorder(), req)
				}()
				synctest.Wait()
			}
			for i := range 60 {
				ask("loud", fmt.Sprint("loud", i))
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			before := len(engine.got)
			const quiet = 5
			for i := range quiet {
				ask("quiet", fmt.Sprint("quiet", i))
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			last := 0
			for i, name := range engine.got {
				if strings.HasPrefix(name, "quiet") {
					last = i
				}
			}
			if n := last + 1 - before - quiet; n > 2*quiet || len(engine.got) != 8+60+quiet {
				t.Errorf("%d running: the engine got %d prompts of the flood before the last of the other's: %v",
					running, n, engine.got[before:])
			}
			r.booksBalance()
			limited := slices.ContainsFunc(r.served, func(s live.Served) bool {
				return s.Decision.AtLimit && s.Queued > 0
			})
			if limited != (running > 0) {
				t.Errorf("%d running: a request was held back by that limit: %v", running, limited)
			}
		})
	}
}

// TestPriority: who may ask for which, by which of the ways there are.
// TestPriorityTowardsEngines: an engine gets no priority of its own kind that the client may not ask for.
func TestPriorityTowardsEngines(t *testing.T) {
	const header = "X-Vllm-Priority"
	none := fleet.Precedence{}
	highest := func(unsaid int64) fleet.Precedence {
		return fleet.Precedence{Order: fleet.HighestFirst, Unsaid: unsaid}
	}
	lowest := func(unsaid int64) fleet.Precedence {
		return fleet.Precedence{Order: fleet.LowestFirst, Unsaid: unsaid}
	}
	for _, tt := range []struct {
		kind       fleet.Kind
		reads      fleet.Precedence
		sent, want string // the number, as it is written
	}{
		{fleet.KindVLLM, none, "-5", "0"},
		{fleet.KindVLLM, none, `"-5"`, "0"},
		{fleet.KindVLLM, none, "-1e3", "0"},
		{fleet.KindVLLM, none, "5", "5"},
		{fleet.KindVLLM, none, "99999999999999999999", "99999999999999999999"},
		{fleet.KindVLLM, none, "-99999999999999999999", "0"},
		{fleet.KindVLLM, none, "0", "0"},
		{fleet.KindVLLM, none, "null", "null"},
		{fleet.KindSGLang, none, "5", "null"}, // not known yet
		{fleet.KindSGLang, none, "0", "null"},
		{fleet.KindSGLang, highest(math.MinInt64), "-5", "null"}, // before all that name none
		{fleet.KindSGLang, highest(math.MinInt64), "0", "null"},
		{fleet.KindSGLang, highest(3), "4", "null"},
		{fleet.KindSGLang, highest(3), "3", "3"},
		{fleet.KindSGLang, highest(3), "-5", "-5"}, // later than those that name none
		{fleet.KindSGLang, highest(3), "-5.5", "null"},
		{fleet.KindSGLang, lowest(math.MaxInt64), "5", "null"},
		{fleet.KindSGLang, lowest(3), "2", "null"},
		{fleet.KindSGLang, lowest(3), "5", "5"},
		{fleet.KindOther, none, "-5", "0"},
		{fleet.KindOther, none, "5", "0"},
	} {
		for _, most := range []fleet.Priority{fleet.PriorityLow, fleet.PriorityNormal, fleet.PriorityHigh} {
			var in inbox
			r := newRig(t, proxy.Config{Quota: quota.New(time.Now(), quota.Config{
				All: quota.Limits{QueueClass: fleet.QueueClass{Priority: most}},
			})}, in.handler)
			r.as(tt.kind, "")
			for _, s := range r.fleet.Status() {
				r.fleet.Observe(route.Probed{Endpoint: s.Endpoint.Name, Report: fleet.Report{
					Healthy: true, Precedence: tt.reads,
				}})
			}
			want := tt.want
			if most == fleet.PriorityHigh {
				want = tt.sent
			}
			for _, path := range []string{
				"/v1/chat/completions", "/v1/messages", "/inference/v1/generate", "/v1/embeddings", "/v1/responses",
			} {
				want := want
				if path == "/v1/responses" && tt.kind == fleet.KindSGLang && most != fleet.PriorityHigh {
					want = "0" // SGLang takes no null there
				}
				body := func(n string) string {
					return `{"priority":` + n + `,"model":"m","stream":false,"priority":` + n + `}`
				}
				r.post(path, body(tt.sent))
				if in.raw != body(want) {
					t.Errorf("%s, at most %v, %s: the engine got %s, want %s", tt.kind, most, path, in.raw, body(want))
				}
				r.post(path, chatBody, header, tt.sent)
				passes := most == fleet.PriorityHigh || strings.Trim(tt.sent, "0123456789") == ""
				if got := in.header.Get(header); (got == tt.sent) != passes || got != "" && !passes {
					t.Errorf("%s, at most %v, %s: the engine got the header %q for %q",
						tt.kind, most, path, got, tt.sent)
				}
				r.post(path, chatBody, "X-SMG-Priority", "system", "x-dynamo-request-priority", "9",
					"x-gateway-inference-objective", "vip", "x-llm-d-inference-objective", "vip")
				for _, name := range []string{
					"X-SMG-Priority", "x-dynamo-request-priority", "x-gateway-inference-objective",
					"x-llm-d-inference-objective",
				} {
					if got := in.header.Get(name) != ""; got != (most == fleet.PriorityHigh) {
						t.Errorf("%s, at most %v, %s: the engine got %s: %t", tt.kind, most, path, name, got)
					}
				}
			}
		}
	}
}

func TestPriority(t *testing.T) {
	for _, tt := range []struct {
		name   string
		most   fleet.Priority
		header string
		body   string
		want   fleet.Priority
	}{
		{"none", fleet.PriorityHigh, "", ``, fleet.PriorityNormal},
		{"header", fleet.PriorityHigh, "High", ``, fleet.PriorityHigh},
		{"header, more than may be", fleet.PriorityNormal, "high", ``, fleet.PriorityNormal},
		{"header, less", fleet.PriorityNormal, "low", ``, fleet.PriorityLow},
		{"the tenant may have low alone", fleet.PriorityLow, "", ``, fleet.PriorityLow},
		{"OpenAI's priority", fleet.PriorityHigh, "", `,"service_tier":"priority"`, fleet.PriorityHigh},
		{"OpenAI's flex", fleet.PriorityHigh, "", `,"service_tier":"flex"`, fleet.PriorityLow},
		{
			"OpenAI's auto, beside vLLM's", fleet.PriorityHigh, "", `,"service_tier":"auto","priority":5`,
			fleet.PriorityNormal,
		},
		{"vLLM's, first", fleet.PriorityHigh, "", `,"priority":-3`, fleet.PriorityHigh},
		{"vLLM's, last", fleet.PriorityHigh, "", `,"priority":7`, fleet.PriorityLow},
		{"vLLM's, none", fleet.PriorityHigh, "", `,"priority":null`, fleet.PriorityNormal},
		{"the header counts first", fleet.PriorityHigh, "low", `,"priority":-3`, fleet.PriorityLow},
		{"vLLM's header, before the body", fleet.PriorityHigh, "-7", `,"priority":3`, fleet.PriorityHigh},
		{"vLLM's header, more than may be", fleet.PriorityNormal, "-7", ``, fleet.PriorityNormal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := quota.New(time.Now(), quota.Config{
				All: quota.Limits{QueueClass: fleet.QueueClass{Priority: tt.most}},
			})
			asked := make(chan fleet.Priority, 8) // a policy may be asked more than once
			engine := serveEngine(t, answers(200, chatAnswer))
			// of one nobody is asked
			declared := []fleet.Endpoint{{Name: "e0", URL: engine, Weight: 1}, {Name: "e1", URL: engine, Weight: 1}}
			r := newRouter(t, proxy.Config{Quota: table}, transportOf(t), route.Config{
				Policy: func() pick.Policy { return hears{asked} },
			}, declared, func(fleet.Kind) fleet.Report { return fleet.Report{Models: []fleet.Model{{ID: "m"}}} })
			r.listen(t)
			var header []string
			if tt.header != "" {
				header = []string{"X-Warmpath-Priority", tt.header}
			}
			if strings.HasPrefix(tt.header, "-") {
				header[0] = "X-Vllm-Priority"
			}
			res, body := r.post("/v1/chat/completions",
				`{"model":"m"`+tt.body+`,"messages":[{"role":"user","content":"hi"}]}`, header...)
			if res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			if got := <-asked; got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// hears tells which priority requests have.
type hears struct{ asked chan fleet.Priority }

func (hears) Needs() pick.Needs { return pick.Needs{Name: "hears"} }

func (hears) Hooks() pick.Hooks { return pick.Hooks{} }

func (h hears) Pick(_ *pick.View, q *fleet.Request) pick.Choice {
	h.asked <- q.QueueClass.Priority
	return pick.Choice{Reason: pick.ReasonSession}
}
