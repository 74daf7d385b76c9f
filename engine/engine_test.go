package engine

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/fleet"
)

func fixture(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dialect(t testing.TB, k fleet.Kind) Dialect {
	t.Helper()
	d, err := ByKind(k)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestByKind(t *testing.T) {
	for _, k := range Kinds() {
		if d := dialect(t, k); d.Kind() != k {
			t.Errorf("ByKind(%q).Kind() = %q", k, d.Kind())
		}
	}
	if d := dialect(t, fleet.KindUnknown); d.Kind() != fleet.KindOther {
		t.Errorf("an unrecognised engine is spoken to as %q", d.Kind())
	}
	_, err := ByKind("lmdeploy")
	if err == nil || !strings.Contains(err.Error(), "vllm, sglang, trtllm, llamacpp, ollama, other") {
		t.Errorf("error does not list the kinds: %v", err)
	}
}

// Questions that cost the engine or other readers something are never asked, under any name.
func TestQuestionsAreFree(t *testing.T) {
	for _, k := range Kinds() {
		d := dialect(t, k)
		asks := append([]Ask{d.Alive()}, d.Asks()...)
		asks = append(asks, d.LoadAsks()...)
		for _, a := range append(asks, RecogniseAsks()...) {
			for _, p := range append([]string{a.Path}, a.Older...) {
				if !strings.HasPrefix(p, "/") || strings.Contains(p, "generate") {
					t.Errorf("%s asks %q", k, p)
				}
				if k == fleet.KindOther && p == "/health" && a.Path != "/health/liveliness" {
					t.Errorf("%s asks %q without asking for LiteLLM's path before", k, p)
				}
				if k == fleet.KindSGLang && p == "/health" || k == fleet.KindTRTLLM && p == "/metrics" {
					t.Errorf("%s asks %q", k, p)
				}
			}
		}
	}
	for _, a := range RecogniseAsks() {
		if a.Path == "/metrics" || a.Path == "/health" {
			t.Errorf("recognition asks %q", a.Path)
		}
	}
}

func TestParts(t *testing.T) {
	rank, slot := fleet.Part{Kind: fleet.Rank, Index: 3}, fleet.Part{Kind: fleet.Slot, Index: 2}
	for _, test := range []struct {
		kind       fleet.Kind
		part       fleet.Part
		want       Addressing
		impossible bool
	}{
		{fleet.KindVLLM, rank, Addressing{Header: "X-data-parallel-rank", Value: "3"}, false},
		{fleet.KindVLLM, slot, Addressing{}, true},
		{
			fleet.KindVLLM,
			fleet.Part{Kind: fleet.Rank, Index: -1},
			Addressing{Header: "X-data-parallel-rank", Value: "-1"},
			true,
		},
		{fleet.KindSGLang, rank, Addressing{
			Header: "X-Data-Parallel-Rank", Value: "3", Field: "routed_dp_rank", JSON: []byte("3"),
		}, false},
		{fleet.KindSGLang, slot, Addressing{}, true},
		{fleet.KindLlamaCpp, slot, Addressing{Field: "id_slot", JSON: []byte("2")}, false},
		{fleet.KindLlamaCpp, rank, Addressing{}, true},
		{fleet.KindTRTLLM, rank, Addressing{}, true},
		{fleet.KindOllama, slot, Addressing{}, true},
		{fleet.KindOther, rank, Addressing{}, true},
	} {
		d := dialect(t, test.kind)
		if diff := cmp.Diff(test.want, d.Address(test.part)); diff != "" {
			t.Errorf("%s %s: %s", test.kind, test.part, diff)
		}
		if err := d.Supports(test.part); (err != nil) != test.impossible {
			t.Errorf("%s %s: Supports = %v", test.kind, test.part, err)
		}
		if err := d.Supports(fleet.Part{}); err != nil {
			t.Errorf("%s: the whole engine: %v", test.kind, err)
		}
		if a := d.Address(fleet.Part{}); a.Header != "" || a.Field != "" {
			t.Errorf("%s: the whole engine needs no address, got %+v", test.kind, a)
		}
	}
}

type readCase struct {
	name    string
	kind    fleet.Kind
	part    fleet.Part
	answers []Answer
	want    fleet.Report
}

func (c readCase) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		var got fleet.Report
		for _, a := range c.answers {
			if err := dialect(t, c.kind).Read(a, c.part, &got); err != nil {
				t.Errorf("%s: %v", a.Path, err)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReadRanked(t *testing.T) {
	rank := func(i int) fleet.Part { return fleet.Part{Kind: fleet.Rank, Index: i} }
	for _, c := range []readCase{
		{"vllm, whole", fleet.KindVLLM, fleet.Part{}, vllmAnswers(t), fleet.Report{
			Version: "0.32.0",
			Models:  []fleet.Model{{ID: "tiny", ContextTokens: 16384}, {ID: "sql", Parent: "tiny"}},
			Load:    &fleet.LoadReport{Running: 4, Waiting: 5, KVUsage: 0.375, Adapters: []string{"sql", `chat\v2`}},
			Ranks:   2, CacheTokens: 65536, BlockTokens: 32,
		}},
		{
			"vllm, rank 1 of a second node", fleet.KindVLLM, rank(1),
			[]Answer{{Ask: AskMetrics, Path: "/metrics", Status: 200, Body: []byte(
				"vllm:num_requests_running{engine=\"5\"} 2\nvllm:num_requests_running{engine=\"4\"} 1\n" +
					"vllm:num_requests_running{engine=\"6\"} 9\n")}},
			fleet.Report{Ranks: 3, FirstRank: 4, Load: &fleet.LoadReport{Running: 2, Waiting: -1, KVUsage: -1}},
		},
		{
			"vllm, one rank with a port of its own", fleet.KindVLLM,
			fleet.Part{},
			[]Answer{{
				Ask: AskMetrics, Path: "/metrics", Status: 200,
				Body: []byte("vllm:num_requests_running{engine=\"5\"} 2\n"),
			}},
			fleet.Report{Ranks: 1, FirstRank: 5, Load: &fleet.LoadReport{Running: 2, Waiting: -1, KVUsage: -1}},
		},
		{"vllm, rank 1", fleet.KindVLLM, rank(1), vllmAnswers(t)[2:], fleet.Report{
			Load:  &fleet.LoadReport{Running: 1, Waiting: 0, KVUsage: 0.25, Adapters: []string{"sql", `chat\v2`}},
			Ranks: 2, CacheTokens: 32768, BlockTokens: 32,
		}},
		{"vllm, older names", fleet.KindVLLM, fleet.Part{}, []Answer{{Ask: AskMetrics, Status: 200, Body: []byte(
			"vllm:num_requests_running{model_name=\"m\"} 1\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n" +
				"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1.0\n")}}, fleet.Report{
			Load: &fleet.LoadReport{Running: 1, Waiting: -1, KVUsage: 0.5}, CacheTokens: 1600, BlockTokens: 16,
		}},
		{
			"vllm, cache not laid out yet", fleet.KindVLLM,
			fleet.Part{},
			[]Answer{{Ask: AskMetrics, Status: 200, Body: []byte(
				"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1.0\n" +
					"vllm:num_requests_running NaN\n")}},
			fleet.Report{BlockTokens: 16},
		},
		{"sglang", fleet.KindSGLang, fleet.Part{}, []Answer{
			{
				Ask: AskModels, Path: "/v1/models", Status: 200,
				Body: []byte(`{"data":[{"id":"tiny","owned_by":"sglang"}]}`),
			},
			{Ask: AskInfo, Path: "/server_info", Status: 200, Body: fixture(t, "sglang/0.5.23/server_info.json")},
			{Ask: AskLoad, Path: "/v1/loads", Status: 200, Body: fixture(t, "sglang/0.5.23/loads.json")},
		}, fleet.Report{
			Version: "0.5.23", Models: []fleet.Model{{ID: "tiny", ContextTokens: 16384}}, ReportsCached: true,
			Load:  &fleet.LoadReport{Running: 0, Waiting: 0, KVUsage: 0},
			Ranks: 1, CacheTokens: 32768, BlockTokens: 32, Slots: 32,
			KVSources: []fleet.KVSource{{Events: "tcp://*:19401", Replay: "tcp://*:19411", Topic: "kv@tiny"}},
		}},
		{"sglang, metrics", fleet.KindSGLang, fleet.Part{}, []Answer{
			{Ask: AskLoad, Path: "/metrics", Status: 200, Body: fixture(t, "sglang/0.5.23/metrics.txt")},
		}, fleet.Report{Load: &fleet.LoadReport{
			Running: 0, Waiting: 0, KVUsage: 0,
		}, CacheTokens: 32768, BlockTokens: 32}},
		{
			"sglang, old load, rank 1", fleet.KindSGLang, rank(1),
			[]Answer{{Ask: AskLoad, Path: "/get_load", Status: 200, Body: []byte(
				`[{"dp_rank":0,"num_reqs":9,"num_waiting_reqs":9},{"dp_rank":1,"num_reqs":5,"num_waiting_reqs":2,"num_tokens":77}]`)}},
			fleet.Report{Load: &fleet.LoadReport{Running: 3, Waiting: 2, KVUsage: -1}},
		},
		{
			"sglang, two ranks", fleet.KindSGLang, rank(0),
			[]Answer{{Ask: AskInfo, Path: "/server_info", Status: 200, Body: []byte(
				`{"version":"0.5.23","dp_size":2,"page_size":1,"max_total_num_tokens":1000,"max_running_requests":64}`)}},
			fleet.Report{Version: "0.5.23", Ranks: 2, BlockTokens: 1, CacheTokens: 1000, Slots: 32},
		},
		sglangPriorities(`true,"schedule_low_priority_values_first":false,"default_priority_value":null`,
			fleet.Precedence{Order: fleet.HighestFirst, Unsaid: math.MinInt64}),
		sglangPriorities(`true,"schedule_low_priority_values_first":true`,
			fleet.Precedence{Order: fleet.LowestFirst, Unsaid: math.MaxInt64}),
		sglangPriorities(`true,"default_priority_value":-3`, fleet.Precedence{Order: fleet.HighestFirst, Unsaid: -3}),
		sglangPriorities(`true,"schedule_low_priority_values_first":true,"default_priority_value":0`,
			fleet.Precedence{Order: fleet.LowestFirst}),
		sglangPriorities(`true,"default_priority_value":1e300`,
			fleet.Precedence{Order: fleet.HighestFirst, Unsaid: math.MinInt64}),
		sglangPriorities(`false,"default_priority_value":5`, fleet.Precedence{}),
	} {
		c.run(t)
	}
}

// sglangPriorities is SGLang's /server_info with --enable-priority-scheduling and what belongs to it.
func sglangPriorities(enabled string, want fleet.Precedence) readCase {
	return readCase{"sglang, priorities: " + enabled, fleet.KindSGLang, fleet.Part{}, []Answer{
		{
			Ask: AskInfo, Path: "/server_info", Status: 200,
			Body: []byte(`{"enable_priority_scheduling":` + enabled + `}`),
		},
	}, fleet.Report{Precedence: want}}
}

func TestReadOthers(t *testing.T) {
	busySlot := []fleet.SlotState{{Slot: 1, Task: 12, Busy: true}}
	slot := func(i int) fleet.Part { return fleet.Part{Kind: fleet.Slot, Index: i} }
	for _, c := range []readCase{
		{"vllm, cache off", fleet.KindVLLM, fleet.Part{}, []Answer{
			{Ask: AskMetrics, Path: "/metrics", Status: 200, Body: fixture(t, "vllm/0.32.0/cache_off.txt")},
		}, fleet.Report{CacheOff: true, BlockTokens: 32, CacheTokens: 32768, Ranks: 1}},
		{"trtllm", fleet.KindTRTLLM, fleet.Part{}, []Answer{
			{
				Ask: AskModels, Path: "/v1/models", Status: 200,
				Body: []byte(`{"object":"list","data":[{"id":"nemotron","owned_by":"tensorrt_llm"}]}`),
			},
			{Ask: AskInfo, Path: "/server_info", Status: 200, Body: fixture(t, "trtllm/1.3/server_info.json")},
			{Ask: AskVersion, Path: "/version", Status: 200, Body: []byte(`{"version":"1.3.0rc2"}`)},
			{Ask: AskMetrics, Path: "/prometheus/metrics", Status: 200, Body: fixture(t, "trtllm/1.3/metrics.txt")},
		}, fleet.Report{
			Version: "1.3.0rc2", Models: []fleet.Model{{ID: "nemotron"}}, Slots: 64, BlockTokens: 32,
			CacheTokens: 131072, Handover: `{"ctx_info_endpoint":["tcp://10.0.0.1:5555"]}`,
			Load: &fleet.LoadReport{Running: 7, Waiting: 2, KVUsage: 0.125},
		}},
		{"trtllm, its HTTP layer as captured", fleet.KindTRTLLM, fleet.Part{}, []Answer{
			{Ask: AskModels, Path: "/v1/models", Status: 200, Body: fixture(t, "trtllm/0076e939/models.json")},
			{Ask: AskInfo, Path: "/server_info", Status: 200, Body: fixture(t, "trtllm/0076e939/server_info.json")},
			{
				Ask: AskMetrics, Path: "/prometheus/metrics", Status: 200,
				Body: fixture(t, "trtllm/0076e939/metrics.txt"),
			},
		}, fleet.Report{
			Models: []fleet.Model{{ID: "m"}}, Slots: 64, BlockTokens: 32, CacheTokens: 32768, Handover: `{}`,
			Load: &fleet.LoadReport{KVUsage: 0.001953125},
		}},
		{"llamacpp", fleet.KindLlamaCpp, fleet.Part{}, llamaAnswers(t), fleet.Report{
			Version: "b11669-debian", ReportsCached: true, Sleep: fleet.Awake, Slots: 4, BlockTokens: 1,
			CacheTokens: 8192,
			Models:      []fleet.Model{{ID: "tiny.gguf", ContextTokens: 2048}, {ID: "tiny", ContextTokens: 2048}},
			Load:        &fleet.LoadReport{Running: 2, Waiting: 6, KVUsage: -1, SlotStates: busySlot},
		}},
		{"llamacpp, as captured", fleet.KindLlamaCpp, fleet.Part{}, []Answer{
			{Ask: AskModels, Path: "/v1/models", Status: 200, Body: fixture(t, "llamacpp/b11669/models.json")},
			{Ask: AskInfo, Path: "/props", Status: 200, Body: fixture(t, "llamacpp/b11669/props.json")},
			{Ask: AskLoad, Path: "/slots", Status: 200, Body: fixture(t, "llamacpp/b11669/slots.json")},
			{Ask: AskMetrics, Path: "/metrics", Status: 200, Body: fixture(t, "llamacpp/b11669/metrics.txt")},
		}, fleet.Report{
			Version: "b11669-Debian", ReportsCached: true, Sleep: fleet.Awake, Slots: 4, BlockTokens: 1,
			CacheTokens: 131072, Models: []fleet.Model{{ID: "tiny", ContextTokens: 32768}},
			Load: &fleet.LoadReport{Running: 0, Waiting: 0, KVUsage: -1, SlotStates: []fleet.SlotState{
				{Slot: 0, Task: 1866}, {Slot: 1, Task: 1753}, {Slot: 2, Task: 1451}, {Slot: 3, Task: 1450},
			}},
		}},
		{"llamacpp, slot 1", fleet.KindLlamaCpp, slot(1), llamaAnswers(t)[1:], fleet.Report{
			Version: "b11669-debian", Sleep: fleet.Awake, Slots: 1, BlockTokens: 1, CacheTokens: 2048,
			Load: &fleet.LoadReport{Running: 1, Waiting: -1, KVUsage: -1, SlotStates: busySlot},
		}},
		{"ollama", fleet.KindOllama, fleet.Part{}, []Answer{
			{Ask: AskAlive, Path: "/api/version", Status: 200, Body: fixture(t, "ollama/0.33.0-rc2/version.json")},
			{Ask: AskModels, Path: "/api/tags", Status: 200, Body: fixture(t, "ollama/0.33.0-rc2/tags.json")},
			{Ask: AskLoad, Path: "/api/ps", Status: 200, Body: fixture(t, "ollama/0.33.0-rc2/ps.json")},
		}, fleet.Report{Healthy: true, Version: "0.33.0-rc2", Sleep: fleet.Awake, Load: &fleet.LoadReport{
			Running: -1, Waiting: -1, KVUsage: -1, Loaded: []string{"tiny:latest", "tiny"},
		}, Models: []fleet.Model{{ID: "tiny:latest"}, {ID: "tiny"}}}},
		{
			"other, odd types", fleet.KindOther,
			fleet.Part{},
			[]Answer{{Ask: AskModels, Path: "/v1/models", Status: 200, Body: []byte(
				`{"data":[{"id":"a","max_model_len":"long"},{"id":"a"},{"id":""},{"id":"b","max_model_len":-5},{"id":"c","max_model_len":1e30}]}`)}},
			fleet.Report{Models: []fleet.Model{{ID: "a"}, {ID: "b"}, {ID: "c"}}},
		},
	} {
		c.run(t)
	}
}

// TestReadWork: the digest of vLLM's figures of work is the same while none moves, and another one after each step; of
// a rank only its own count. Without the count of tokens it is 0, since a step need change none of the others.
func TestReadWork(t *testing.T) {
	page := func(running, usage, prompt, generated string) string {
		return fmt.Sprintf("vllm:num_requests_running{engine=\"0\"} %s\nvllm:kv_cache_usage_perc{engine=\"0\"} %s\n"+
			"vllm:prompt_tokens_total{engine=\"0\"} %s\nvllm:generation_tokens_total{engine=\"0\"} %s\n"+
			"vllm:generation_tokens_total{engine=\"1\"} 9.0\nvllm:http_requests_total{engine=\"0\"} 1.0\n",
			running, usage, prompt, generated)
	}
	work := func(page string, part fleet.Part) uint64 {
		r := fleet.Report{}
		a := Answer{Ask: AskMetrics, Path: "/metrics", Status: 200, Body: []byte(page)}
		if err := dialect(t, fleet.KindVLLM).Read(a, part, &r); err != nil || r.Load == nil {
			t.Fatalf("%v, %+v", err, r)
		}
		return r.Load.Work
	}
	stands := page("1.0", "0.25", "100.0", "7.0")
	other := strings.Replace(stands, "s_total{engine=\"0\"} 1.0", "s_total{engine=\"0\"} 2.0", 1)
	was := work(stands, fleet.Part{})
	if was == 0 || was != work(other, fleet.Part{}) {
		t.Error("a page on which no figure of work moves has another digest")
	}
	for _, moved := range []string{
		page("1.0", "0.25", "100.0", "8.0"), page("1.0", "0.2504", "100.0", "7.0"), page("1.0", "0.25", "200.0", "7.0"),
		page("2.0", "0.25", "100.0", "7.0"), strings.Replace(stands, " 9.0", " 10.0", 1),
	} {
		if work(moved, fleet.Part{}) == was {
			t.Errorf("the same digest for %q", moved)
		}
	}
	own := fleet.Part{Kind: fleet.Rank}
	if work(stands, own) != work(strings.Replace(stands, " 9.0", " 10.0", 1), own) {
		t.Error("a rank works where another one does")
	}
	if n := work("vllm:num_requests_running{engine=\"0\"} 1.0\n", fleet.Part{}); n != 0 {
		t.Errorf("%d without a count of tokens", n)
	}
}

// TestReadSleep: what each kind says of itself while it sleeps, or is paused.
func TestReadSleep(t *testing.T) {
	page := func(states string) Answer {
		return Answer{
			Ask: AskMetrics, Path: "/metrics", Status: 200,
			Body: []byte("# TYPE vllm:engine_sleep_state gauge\n" + states),
		}
	}
	vllmState := func(rank int, awake, offloaded, discarded string) string {
		line := func(state, v string) string {
			return fmt.Sprintf("vllm:engine_sleep_state{engine=\"%d\",model_name=\"m\",sleep_state=\"%s\"} %s\n",
				rank, state, v)
		}
		return line("awake", awake) + line("weights_offloaded", offloaded) + line("discard_all", discarded)
	}
	said := func(ask, path, body string) Answer {
		return Answer{Ask: ask, Path: path, Status: 200, Body: []byte(body)}
	}
	for _, test := range []struct {
		name    string
		kind    fleet.Kind
		answers []Answer
		want    fleet.Sleep
		detail  string
	}{
		{"vllm, awake", fleet.KindVLLM, []Answer{page(vllmState(0, "1.0", "0.0", "0.0"))}, fleet.Awake, ""},
		{
			"vllm, level 1", fleet.KindVLLM,
			[]Answer{page(vllmState(0, "0.0", "1.0", "0.0"))},
			fleet.Asleep, "asleep (weights_offloaded)",
		},
		{
			"vllm, level 2", fleet.KindVLLM,
			[]Answer{page(vllmState(0, "0.0", "0.0", "1.0"))},
			fleet.Asleep, "asleep (discard_all)",
		},
		{
			"vllm, one rank of two", fleet.KindVLLM,
			[]Answer{page(vllmState(0, "1.0", "0.0", "0.0") + vllmState(1, "0.0", "1.0", "0.0"))},
			fleet.Asleep, "asleep (weights_offloaded)",
		},
		{
			"vllm, no such figure", fleet.KindVLLM,
			[]Answer{page("vllm:num_requests_running{engine=\"0\"} 1\n")},
			fleet.SleepUnknown, "",
		},
		{
			"vllm, without metrics", fleet.KindVLLM,
			[]Answer{said(AskSleep, "/is_sleeping", `{"is_sleeping":true}`)},
			fleet.Asleep, "asleep",
		},
		{
			"vllm, without metrics, awake", fleet.KindVLLM,
			[]Answer{said(AskSleep, "/is_sleeping", `{"is_sleeping":false}`)},
			fleet.Awake, "",
		},
		{
			"vllm, paused", fleet.KindVLLM,
			[]Answer{
				page(vllmState(0, "1.0", "0.0", "0.0")), said(AskSleep, "/is_sleeping", `{"is_sleeping":false}`),
				said(AskPaused, "/is_paused", `{"is_paused":true}`),
			},
			fleet.Paused, "paused",
		},
		{
			"vllm, paused, as both say", fleet.KindVLLM,
			[]Answer{
				page(vllmState(0, "1.0", "0.0", "0.0")), said(AskSleep, "/is_sleeping", `{"is_sleeping":true}`),
				said(AskPaused, "/is_paused", `{"is_paused":true}`),
			},
			fleet.Paused, "paused",
		},
		{
			"vllm, asleep at level 0", fleet.KindVLLM,
			[]Answer{page(vllmState(0, "0.0", "0.0", "0.0"))},
			fleet.Asleep, "asleep: POST /wake_up",
		},
		{
			"vllm, asleep and not paused", fleet.KindVLLM,
			[]Answer{page(vllmState(0, "0.0", "1.0", "0.0")), said(AskPaused, "/is_paused", `{"is_paused":false}`)},
			fleet.Asleep, "asleep (weights_offloaded)",
		},
		{
			"vllm, something else", fleet.KindVLLM,
			[]Answer{said(AskSleep, "/is_sleeping", `{"is_sleeping":"yes"}`)},
			fleet.SleepUnknown, "",
		},
		{
			"ollama, no model in memory", fleet.KindOllama,
			[]Answer{said(AskLoad, "/api/ps", string(fixture(t, "ollama/0.33.0-rc2/ps_empty.json")))},
			fleet.Dozing, "",
		},
		{
			"ollama, one in memory", fleet.KindOllama,
			[]Answer{said(AskLoad, "/api/ps", `{"models":[{"name":"m:latest"}]}`)},
			fleet.Awake, "",
		},
		{
			"llamacpp with several models, none in memory", fleet.KindLlamaCpp,
			[]Answer{said(AskResident, "/models", `{"data":[{"id":"a","status":{"value":"unloaded"}},{"id":"b","status":{"value":"loading"}},{"id":"c","status":{"value":"sleeping"}}]}`)},
			fleet.Dozing, "",
		},
		{"llamacpp with several models, one in memory", fleet.KindLlamaCpp, []Answer{
			said(AskResident, "/models",
				`{"data":[{"id":"a","status":{"value":"loaded"}},{"id":"b","status":{"value":"loading"}}]}`),
		}, fleet.Awake, ""},
		{
			"llamacpp with one model", fleet.KindLlamaCpp,
			[]Answer{said(AskResident, "/models", `{"data":[{"id":"a"}]}`)},
			fleet.SleepUnknown, "",
		},
		{
			"llama-swap, none runs", fleet.KindOther,
			[]Answer{said(AskResident, "/running", `{"running":[]}`)},
			fleet.Dozing, "",
		},
		{
			"llama-swap, one starts", fleet.KindOther,
			[]Answer{said(AskResident, "/running", `{"running":[{"model":"a","state":"starting"}]}`)},
			fleet.Dozing, "",
		},
		{
			"llama-swap, one runs", fleet.KindOther,
			[]Answer{said(AskResident, "/running", `{"running":[{"model":"a","state":"ready"}]}`)},
			fleet.Awake, "",
		},
		{
			"another server with such a path", fleet.KindOther,
			[]Answer{said(AskResident, "/running", `{"ok":true}`)},
			fleet.SleepUnknown, "",
		},
		{
			"llamacpp, awake", fleet.KindLlamaCpp,
			[]Answer{said(AskInfo, "/props", `{"total_slots":4,"is_sleeping":false}`)},
			fleet.Awake, "",
		},
		{
			"llamacpp, asleep", fleet.KindLlamaCpp,
			[]Answer{said(AskInfo, "/props", `{"total_slots":4,"is_sleeping":true}`)},
			fleet.Dozing, "",
		},
		{
			"llamacpp, before it could sleep", fleet.KindLlamaCpp,
			[]Answer{said(AskInfo, "/props", `{"total_slots":4}`)},
			fleet.SleepUnknown, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r fleet.Report
			for _, a := range test.answers {
				if err := dialect(t, test.kind).Read(a, fleet.Part{}, &r); err != nil {
					t.Error(err)
				}
			}
			if r.Sleep != test.want || !strings.HasPrefix(r.Rests, test.detail) || test.detail == "" && r.Rests != "" {
				t.Errorf("got %q, %q", r.Sleep, r.Rests)
			}
		})
	}
}

func vllmAnswers(t testing.TB) []Answer {
	return []Answer{
		{Ask: AskModels, Path: "/v1/models", Status: 200, Body: fixture(t, "vllm/0.32.0/models.json")},
		{Ask: AskVersion, Path: "/version", Status: 200, Body: []byte(`{"version":"0.32.0"}`)},
		{Ask: AskMetrics, Path: "/metrics", Status: 200, Body: fixture(t, "vllm/0.32.0/metrics.txt")},
	}
}

func llamaAnswers(t testing.TB) []Answer {
	return []Answer{
		{Ask: AskModels, Path: "/v1/models", Status: 200, Body: fixture(t, "llamacpp/0.7.0/models.json")},
		{Ask: AskInfo, Path: "/props", Status: 200, Body: fixture(t, "llamacpp/0.7.0/props.json")},
		{Ask: AskLoad, Path: "/slots", Status: 200, Body: fixture(t, "llamacpp/0.7.0/slots.json")},
		{Ask: AskMetrics, Path: "/metrics", Status: 200, Body: fixture(t, "llamacpp/0.7.0/metrics.txt")},
	}
}

func TestAlive(t *testing.T) {
	for _, test := range []struct {
		status  int
		body    string
		healthy bool
		detail  string
	}{
		{200, "", true, ""},
		{204, "", true, ""},
		{401, `{"error":"Unauthorized"}`, true, ""},
		{403, "", true, ""},
		{404, "", true, ""},
		{429, "", true, ""},
		{501, "", true, ""},
		{
			503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, false,
			"starting, stopping or paused: 503 Loading model",
		},
		{503, "", false, "starting, stopping or paused: 503"},
		{500, "<html>nginx</html>", false, "500"},
		{500, `{"error":"boom"}`, false, "500 boom"},
		{502, "bad\n\tgateway\x00", false, "502 bad gateway"},
		{500, strings.Repeat("é", 200), false, "500 " + strings.Repeat("é", maxDetail/2) + "…"},
	} {
		for _, k := range Kinds() {
			d := dialect(t, k)
			r := fleet.Report{Healthy: !test.healthy, Detail: "old"}
			a := Answer{Ask: AskAlive, Path: d.Alive().Path, Status: test.status, Body: []byte(test.body)}
			if err := d.Read(a, fleet.Part{}, &r); err != nil {
				t.Errorf("%s: %v", k, err)
			}
			if r.Healthy != test.healthy || r.Detail != test.detail {
				t.Errorf("%s: %d %q: got %v %q", k, test.status, test.body, r.Healthy, r.Detail)
			}
		}
	}
}

// An unreadable answer changes nothing and gives the reason.
func TestUselessAnswers(t *testing.T) {
	for _, k := range Kinds() {
		d := dialect(t, k)
		for _, ask := range append(d.Asks(), d.LoadAsks()...) {
			for _, body := range []string{
				"", "null", "[]", "{}", "[1]", "<html>", `{"data":`, strings.Repeat("[", 20000),
				`{"data":[{"id":5}],"models":[{"name":5}]}`, `{"data":["m"],"models":["m"]}`,
				`{"data":[{"id":""}],"models":[{}]}`, `{"data":[null],"models":[null]}`,
			} {
				for _, status := range []int{200, 401, 500} {
					want := fleet.Report{
						Healthy: true, Version: "v", Models: []fleet.Model{{ID: "m"}}, CacheTokens: 1, Slots: 2,
					}
					got := fleet.Report{
						Healthy: true, Version: "v", Models: []fleet.Model{{ID: "m"}}, CacheTokens: 1, Slots: 2,
					}
					err := d.Read(Answer{Ask: ask.Name, Path: ask.Path, Status: status, Body: []byte(body)},
						fleet.Part{}, &got)
					if status != 200 && (err == nil || !strings.Contains(err.Error(), ask.Path)) {
						t.Errorf("%s %s %d: error is %v", k, ask.Path, status, err)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s %s %d %.20q: %s", k, ask.Path, status, body, diff)
					}
				}
			}
		}
	}
}

func TestRecognise(t *testing.T) {
	models := func(owner string) Answer {
		return Answer{Path: "/v1/models", Status: 200, Body: []byte(`{"data":[{"id":"m","owned_by":"` + owner + `"}]}`)}
	}
	locked := Answer{Path: "/v1/models", Status: 401, Body: []byte(`{"error":"Unauthorized"}`)}
	ok := func(path, body string) Answer { return Answer{Path: path, Status: 200, Body: []byte(body)} }
	missing := func(path string) Answer { return Answer{Path: path, Status: 404, Body: []byte("Not Found")} }
	_, starting, _ := bytes.Cut(fixture(t, "trtllm/0076e939/starting.http"), []byte("\r\n\r\n"))
	for _, test := range []struct {
		name    string
		answers []Answer
		want    fleet.Kind
	}{
		{"nothing", nil, fleet.KindUnknown},
		{"vllm", []Answer{models("vllm")}, fleet.KindVLLM},
		{"sglang", []Answer{models("sglang"), ok("/api/tags", `{"models":[{"name":"m"}]}`)}, fleet.KindSGLang},
		{"trtllm", []Answer{models("tensorrt_llm"), ok("/version", `{"version":"1.3"}`)}, fleet.KindTRTLLM},
		{"llamacpp", []Answer{models("llamacpp")}, fleet.KindLlamaCpp},
		{"ollama", []Answer{
			ok("/v1/models", string(fixture(t, "ollama/0.33.0-rc2/models.json"))), ok("/api/tags",
				string(fixture(t, "ollama/0.33.0-rc2/tags.json"))),
		}, fleet.KindOllama},
		{"ollama without models", []Answer{
			ok("/v1/models", `{"object":"list","data":null}`), ok("/api/tags", `{"models":[]}`),
		}, fleet.KindOllama},
		{"ollama, own models", []Answer{models("me"), ok("/api/tags", `{"models":[{"name":"m"}]}`)}, fleet.KindOllama},
		{"llama-swap", []Answer{
			models("llama-swap"), ok("/api/version", `{"version":"v182","commit":"abc","build_date":"2026-09-01"}`),
			missing("/api/tags"), missing("/version"),
		}, fleet.KindOther},
		{"LocalAI", []Answer{
			ok("/v1/models", `{"object":"list","data":[{"id":"m","object":"model"}]}`), missing("/server_info"),
			ok("/version", `{"version":"v3.9.0 (abc)"}`),
		}, fleet.KindOther},
		{"KoboldCpp", []Answer{
			models("koboldcpp"), ok("/api/tags", `{"models":[{"name":"koboldcpp"}]}`), missing("/version"),
		}, fleet.KindOther},
		{"vllm behind a proxy with names of its own", []Answer{
			models("me"), ok("/load", `{"server_load":0}`), ok("/version", `{"version":"0.32.0"}`),
		}, fleet.KindVLLM},
		{"vllm behind a key", []Answer{
			locked, missing("/server_info"), missing("/props"), ok("/load", `{"server_load":0}`), ok("/version",
				`{"version":"0.32.0"}`),
		}, fleet.KindVLLM},
		{
			"sglang behind a key",
			[]Answer{locked, ok("/server_info", string(fixture(t, "sglang/0.5.23/server_info.json")))},
			fleet.KindSGLang,
		},
		{
			"trtllm, captured",
			[]Answer{ok("/v1/models", string(fixture(t, "trtllm/0076e939/models.json")))},
			fleet.KindTRTLLM,
		},
		{
			"trtllm, its information alone",
			[]Answer{ok("/server_info", string(fixture(t, "trtllm/0076e939/server_info.json")))},
			fleet.KindTRTLLM,
		},
		{"trtllm behind a key", []Answer{
			locked, ok("/server_info", string(fixture(t, "trtllm/1.3/server_info.json"))), ok("/version",
				`{"version":"1.3"}`),
		}, fleet.KindTRTLLM},
		{
			"llamacpp behind a key",
			[]Answer{locked, ok("/props", string(fixture(t, "llamacpp/0.7.0/props.json")))},
			fleet.KindLlamaCpp,
		},
		{"another gateway", []Answer{models("openai"), missing("/version")}, fleet.KindOther},
		{"a wall of 401", []Answer{locked, {Path: "/version", Status: 401}}, fleet.KindOther},
		{
			"a web page for everything",
			[]Answer{ok("/v1/models", "<html>"), ok("/props", "<html>"), ok("/version", "<html>")},
			fleet.KindOther,
		},
		{"starting", []Answer{
			{Path: "/v1/models", Status: 503, Body: []byte(`{"error":{"message":"Loading model"}}`)},
			{Path: "/props", Status: 503},
		}, fleet.KindUnknown},
		{"trtllm starts", []Answer{{Path: "/v1/models", Status: 503, Body: starting}, {
			Path: "/server_info", Status: 503, Body: starting,
		}, {Path: "/props", Status: 503, Body: starting}}, fleet.KindUnknown},
		{"bad gateway", []Answer{{Path: "/v1/models", Status: 502}}, fleet.KindUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Recognise(test.answers); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A report never contains impossible values, whatever the engine's figures.
func FuzzRead(f *testing.F) {
	for i := range Kinds() {
		f.Add(uint8(i), uint8(0), string(fixture(f, "vllm/0.32.0/metrics.txt")))
		f.Add(uint8(i), uint8(1), `{"data":[{"id":"a","parent":"a","max_model_len":1e400}]}`)
		f.Add(uint8(i), uint8(2),
			`{"dp_size":-1,"max_total_num_tokens":1e18,"total_slots":1e9,"loads":[{"dp_rank":1e99}]}`)
	}
	f.Fuzz(func(t *testing.T, kind, ask uint8, body string) {
		d := dialect(t, Kinds()[int(kind)%len(Kinds())])
		asks := append(append([]Ask{d.Alive()}, d.Asks()...), d.LoadAsks()...)
		a := asks[int(ask)%len(asks)]
		for _, path := range append([]string{a.Path}, a.Older...) {
			for _, part := range []fleet.Part{{}, {Kind: fleet.Rank, Index: 1}, {Kind: fleet.Slot, Index: 1}} {
				var r fleet.Report
				_ = d.Read(Answer{Ask: a.Name, Path: path, Status: 200, Body: []byte(body)}, part, &r)
				if r.CacheTokens < 0 || r.BlockTokens < 0 || r.Slots < 0 || r.Ranks < 0 || len(r.Models) > maxModels {
					t.Fatalf("%+v", r)
				}
				for _, m := range r.Models {
					if m.ID == "" || m.ContextTokens < 0 || m.Parent == m.ID {
						t.Fatalf("%+v", m)
					}
				}
				if l := r.Load; l != nil &&
					(l.Running < -1 || l.Waiting < -1 || math.IsNaN(l.KVUsage) || l.KVUsage > 1 || l.KVUsage < -1) {
					t.Fatalf("%+v", l)
				}
			}
		}
	})
}
