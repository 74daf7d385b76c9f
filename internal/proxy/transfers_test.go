package proxy_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// transferFields are what routers say of KV transfers, in bodies and headers.
var (
	transferFields = map[string]string{
		"kv_transfer_params": `{"do_remote_prefill":true,"remote_host":"10.0.0.9","remote_port":1}`,
		"ec_transfer_params": `{"peer_host":"10.0.0.9"}`, "disaggregated_params": `{"request_type":"generation_only",` +
			`"ctx_request_id":7,"ctx_info_endpoint":"10.0.0.9:1"}`, "bootstrap_host": `"10.0.0.9"`,
		"bootstrap_port": "1", "bootstrap_room": "[7]", "bootstrap_pair_key": `"k"`, "disagg_prefill_dp_rank": "1",
		"encoder_urls": `["http://10.0.0.9:1"]`, "need_wait_for_mm_inputs": "true",
		"num_items_assigned": `{"IMAGE":[1]}`, "http_worker_ipc": `"tcp://10.0.0.9:1"`,
		"kv_hints":       `{"protocol_version":"0.1","message_id":"1","actions":[{"action_type":"kv.fetch"}]}`,
		"routed_dp_rank": "1", "data_parallel_rank": "0",
	}
	transferHeaders = []string{
		"X-Prefiller-Host-Port", "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port", "X-Kv-Cache-Source-Host-Port",
		"X-Override-Bootstrap-Host", "X-Override-Rid", "X-SMG-Target-Worker", "x-dynamo-worker-instance-id",
		"x-dynamo-prefill-instance-id", "x-dynamo-dp-rank", "x-dynamo-prefill-dp-rank",
		"x-worker-instance-id", "x-prefill-instance-id", "x-dp-rank", "x-prefill-dp-rank", "X-data-parallel-rank",
		"X-TRTLLM-Msgpack", "x-trtllm-disagg-auth", "x-body-compressed", "x-envoy-upstream-rq-timeout-ms",
		"X-Envoy-Retry-On",
		"x-envoy-original-dst-host", "l5d-timeout", "grpc-timeout", "x-gateway-destination-endpoint",
		"x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite",
	}
)

// TestPackedBodiesAreRefused: a body that an engine may unpack is not passed on unread, whatever its type and path. One
// setting passes those on that need not be read here.
func TestPackedBodiesAreRefused(t *testing.T) {
	const packed = "\x28\xb5\x2f\xfd{\"model\":\"m\",\"kv_transfer_params\":{}}"
	for _, trusted := range []bool{false, true} {
		var in inbox
		r := newRig(t, proxy.Config{Transfers: trusted}, in.handler)
		for _, path := range []string{
			"/v1/chat/completions", "/v1/responses", "/v1/audio/transcriptions", "/v1/decisions", "/tokenize",
			"/invocations",
		} {
			read := path == "/v1/chat/completions" || path == "/v1/responses"
			for _, media := range []string{"application/json", "audio/wav", "multipart/form-data; boundary=x", ""} {
				for _, codings := range [][]string{{"zstd"}, {"gzip"}, {"identity", "zstd"}, {"Identity"}} {
					req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(packed))
					if err != nil {
						t.Fatal(err)
					}
					req.Header["Content-Type"], req.Header["Content-Encoding"] = []string{media}, codings
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					_ = res.Body.Close()
					in.mu.Lock()
					passed := in.raw != ""
					in.raw = ""
					in.mu.Unlock()
					want := 200
					switch plain := codings[0] == "Identity"; {
					case !plain && (read || !trusted):
						want = http.StatusUnsupportedMediaType
					case read:
						want = http.StatusBadRequest
					}
					if res.StatusCode != want || passed != (want == 200) {
						t.Errorf("trusted %t: %s, %q as %v: %d, passed %t, want %d",
							trusted, path, media, codings, res.StatusCode, passed, want)
					}
				}
			}
		}
	}
}

// TestTransferFieldsStayHere: what makes an engine dial an address comes from routers only, on whatever path, to
// whatever kind of engine, however the member is written; all other bytes are the client's. One setting passes it on.
func TestTransferFieldsStayHere(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		var in inbox
		r := newRig(t, proxy.Config{Transfers: trusted}, in.handler)
		check := func(what, path, sent, name, want string, header ...string) {
			t.Helper()
			res, answer := r.post(path, sent, header...)
			in.mu.Lock()
			defer in.mu.Unlock()
			if trusted {
				want = sent
			}
			if in.raw != want || res.StatusCode != 200 {
				t.Errorf("trusted %t, %s at %s: %d %s, the engine got %s, want %s",
					trusted, name, what, res.StatusCode, answer, in.raw, want)
			}
			in.raw = ""
		}
		for _, kind := range []fleet.Kind{
			fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp, fleet.KindOllama, fleet.KindOther,
			fleet.KindUnknown,
		} {
			r.as(kind, "")
			for _, path := range []string{
				"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages",
				"/generate", "/api/chat", "/inference/v1/generate", "/invocations", "/v1/score",
			} {
				for name, value := range transferFields {
					around := [2]string{`{"model": "m","stream":false,  "` + name + `" : `, `, "x":[1.0]}`}
					check(string(kind), path, around[0]+value+around[1], name, around[0]+"null"+around[1])
				}
			}
		}
		r.as(fleet.KindVLLM, "")
		const twice = `{"kv_transfer_params":{"a":1},"model":"m","stream":false,"\u006bv_transfer_params":{"b":2}}`
		check("twice", "/v1/chat/completions", twice, "kv_transfer_params",
			`{"kv_transfer_params":null,"model":"m","stream":false,"\u006bv_transfer_params":null}`)
		for _, kind := range []string{"Application/JSON; charset=utf-8", "application/vnd.api+json", "text/plain", ""} {
			check(kind, "/invocations", `{"model":"m","kv_transfer_params":{"a":1}}`, "kv_transfer_params",
				`{"model":"m","kv_transfer_params":null}`, "Content-Type", kind)
		}
		for _, body := range []string{
			`{"model":"m","x":NaN,"kv_transfer_params":{}}`, "\xff\xfe{\x00}\x00", "{\x00}\x00", "\x00\x00\x00{",
			`{` + strings.Repeat(`"model":"m",`, 100) + `"x":1}`,
		} {
			res, _ := r.post("/invocations", body)
			if want := map[bool]int{false: 400, true: 200}[trusted]; res.StatusCode != want {
				t.Errorf("trusted %t, %q: %d, want %d", trusted, body, res.StatusCode, want)
			}
		}
		for _, path := range []string{"/v1/chat/completions", "/invocations"} {
			for _, name := range transferHeaders {
				r.post(path, chatBody, name, "10.0.0.9:1")
				if got := in.header.Get(name) != ""; got != trusted {
					t.Errorf("trusted %t, %s at %s: the engine got it: %t", trusted, name, path, got)
				}
			}
		}
	}
}

// TestTransferFieldsInside: vLLM reads them within what a request says of sampling too. All else in there stays.
func TestTransferFieldsInside(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		var in inbox
		r := newRig(t, proxy.Config{Transfers: trusted}, in.handler)
		for _, kind := range []fleet.Kind{fleet.KindVLLM, fleet.KindUnknown} {
			r.as(kind, "")
			for _, c := range []struct{ path, sent, want string }{
				{
					"/inference/v1/generate",
					`{"model":"m","token_ids":[1],"sampling_params":{"n":1, "extra_args":{"a": 1, "kv_transfer_params":{"b":2},` +
						`"ec_transfer_params":{}}, "seed":3}}`,
					`{"model":"m","token_ids":[1],"sampling_params":{"n":1,"extra_args":{"a":1},"seed":3}}`,
				}, {
					"/inference/v1/generate",
					`{"model":"m","sampling_params":{"\u0065xtra_args":{"k\u0076_transfer_params":{}},` +
						`"extra_args":{"kv_transfer_params":1,"kv_transfer_params":2}}}`,
					`{"model":"m","sampling_params":{"\u0065xtra_args":{},"extra_args":{}}}`,
				}, {
					"/v1/chat/completions",
					`{"model":"m","stream":false,"vllm_xargs":{"kv_transfer_params":"x","top":[1]}}`,
					`{"model":"m","stream":false,"vllm_xargs":{"top":[1]}}`,
				}, {
					"/v1/messages",
					`{"model":"m","stream":false,"vllm_xargs":{"a":1},"vllm_xargs":{"kv_transfer_params":[1]}}`,
					`{"model":"m","stream":false,"vllm_xargs":{},"vllm_xargs":{}}`,
				}, {
					"/v1/completions",
					`{"model":"m","stream":false,"vllm_xargs":{"deeper":[{"kv_transfer_params": 1}]},"sampling_params":7}`, "",
				},
			} {
				res, answer := r.post(c.path, c.sent)
				want := c.want
				if trusted || want == "" {
					want = c.sent
				}
				if in.raw != want || res.StatusCode != 200 {
					t.Errorf("trusted %t, %s: %d %s, the engine got\n%s, want\n%s",
						trusted, c.path, res.StatusCode, answer, in.raw, want)
				}
			}
		}
	}
}

// TestTransferFieldsOfForms: a form obeys the same table, in each of its fields; files and all else pass as they are.
func TestTransferFieldsOfForms(t *testing.T) {
	const media = "multipart/form-data; boundary=b"
	part := func(name, value string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	file := part(`file"; filename="vllm_xargs`, strings.Repeat(`{"kv_transfer_params":1}`, 100))
	model := part("model", "m")
	long := strings.Repeat("x", 10000)
	for _, trusted := range []bool{false, true} {
		var in inbox
		r := newRig(t, proxy.Config{Transfers: trusted}, in.handler)
		check := func(media, sent, want string) {
			t.Helper()
			if trusted {
				want = sent
			}
			in.raw = ""
			res, answer := r.post("/v1/audio/transcriptions", sent, "Content-Type", media)
			if in.raw != want || res.StatusCode != map[bool]int{true: 400, false: 200}[want == ""] {
				t.Errorf("trusted %t: %d %s, the engine got\n%.200q, want\n%.200q",
					trusted, res.StatusCode, answer, in.raw, want)
			}
		}
		for name, value := range transferFields {
			check(media, model+part(name, value)+file+"--b--", model+part(name, "")+file+"--b--")
			check("application/x-www-form-urlencoded", "model=m&"+name+"="+url.QueryEscape(value)+"&a=b",
				"model=m&"+name+"=&a=b")
		}
		for sent, want := range map[string]string{
			`{"a": 1}`:                              `{"a": 1}`,
			`{"kv_transfer_params":"x","a":1}`:      `{"a":1}`,
			`{"ec_transfer_\u0070arams":[1]}`:       `{}`,
			`{"kv_transfer_params":"x","a":NaN}`:    `{"a":NaN}`, // Python reads it
			`{"kv_transfer_params":"x",}`:           `{}`,
			`{"a":NaN,'b'}`:                         "",
			`{"kv_transfer_params":"` + long + `"}`: `{}`,
		} {
			check(media, part("vllm_xargs", sent)+model+file+"--b--", part("vllm_xargs", want)+model+file+"--b--")
			check(media, part("vllm_xargs", sent)+part("vllm_xargs", sent)+"--b--",
				part("vllm_xargs", want)+part("vllm_xargs", want)+"--b--")
			check("application/x-www-form-urlencoded", "vllm_xargs="+url.QueryEscape(sent),
				"vllm_xargs="+map[bool]string{true: url.QueryEscape(sent), false: url.QueryEscape(want)}[sent == want])
		}
		check(media, strings.Repeat(part("x", "y"), 256)+part("vllm_xargs", `{"kv_transfer_params":1}`)+"--b--", "")
		check(media, part(`vllm_xargs"; name="x`, `{"kv_transfer_params":1}`)+"--b--", "")
		check(media, part(`vllm_xargs"; name="x`, `{"kv_transfer_params":"`+long+`"}`)+"--b--", "")
		for _, poses := range []string{
			"\"\r\nX-A: filename=\"", `"; x="filename`, `"; x="; filename=y`, "\"; x\"\r\nX-A: y; filename=\"",
		} {
			check(media, part(`x"; name="vllm_xargs`+poses, `{"kv_transfer_params":"`+long+`"}`)+"--b--", "")
		}
		odd := part(`file"; filename=my song.mp3; x="`, long)
		check(media, model+odd+"--b--", model+odd+"--b--")
	}
}

// TestTransferHeadersOfUpgrades: upgrades withhold the same headers as requests.
func TestTransferHeadersOfUpgrades(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		var got http.Header
		r := newRig(t, proxy.Config{Transfers: trusted}, func(w http.ResponseWriter, req *http.Request) {
			got = req.Header.Clone()
			w.WriteHeader(http.StatusTeapot)
		})
		for _, name := range transferHeaders {
			r.do("GET", "/v1/realtime", "", "Connection", "Upgrade", "Upgrade", "websocket", name, "10.0.0.9:1",
				"X-Warmpath-Model", "m")
			if passed := got.Get(name) != ""; passed != trusted || got.Get("X-Warmpath-Model") != "" ||
				got.Get("Upgrade") != "websocket" {
				t.Errorf("trusted %t, %s: the engine got %v", trusted, name, got)
			}
		}
	}
}
