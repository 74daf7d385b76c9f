package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// streamForm is how a kind of stream looks.
type streamForm struct {
	media string
	data  []string // events before the mark
	mark  string
	cut   []string // parts of the mark
	told  string   // the beginning of an error in the stream
}

const (
	eventStream = "text/event-stream"
	jsonLines   = "application/x-ndjson"
)

var (
	openAIForm = streamForm{
		eventStream,
		[]string{`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n", chunk("hi")},
		doneChunk,
		[]string{"data: [DON", "data: "},
		`data: {"error":`,
	}
	completionsForm = streamForm{
		eventStream,
		[]string{`data: {"choices":[{"index":0,"text":"hi"}]}` + "\n\n"},
		doneChunk,
		[]string{"data: ["},
		`data: {"error":`,
	}
	responsesForm = streamForm{
		eventStream,
		[]string{
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n",
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n",
		},
		"event: response.completed\n" +
			"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"output\":[]}}\n\n",
		[]string{
			"event: response.completed\n", "event: response.completed\n" +
				"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"output\":[]}",
		},
		`"error"`,
	}
	messagesForm = streamForm{
		eventStream,
		[]string{
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
				"\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n",
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
		},
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		[]string{"event: message_stop\n", "event: message_stop\ndata: {\"type\":\"mess"},
		"event: error\ndata: ",
	}
	generateForm = streamForm{
		eventStream,
		[]string{`data: {"text":"hi","output_ids":[1],"meta_info":{"finish_reason":null}}` + "\n\n"},
		doneChunk,
		[]string{"data: [DO"},
		`data: {"error":`,
	}
	ollamaChatForm = streamForm{
		jsonLines,
		[]string{`{"model":"m","message":{"role":"assistant","content":"hi"},"done":false}` + "\n"},
		`{"model":"m","message":{"role":"assistant","content":""},"done":true,"total_duration":5,"eval_count":1}` +
			"\n",
		[]string{`{"model":"m","message":{"role":"assistant","content":""}`},
		`{"error":"`,
	}
	ollamaGenerateForm = streamForm{
		jsonLines,
		[]string{`{"model":"m","response":"hi","done":false}` + "\n"},
		`{"model":"m","response":"","done":true,"context":[1,2],"total_duration":5,"eval_count":1}` + "\n",
		[]string{`{"model":"m","response":"","done":tr`, `{"model":"m","response":"","done":true`},
		`{"error":"`,
	}
	nativeForm = streamForm{
		eventStream,
		[]string{`data: {"index":0,"content":"hi","tokens":[],"stop":false}` + "\n\n"},
		`data: {"index":0,"content":"","stop":true,"stop_type":"eos","timings":{"prompt_n":3}}` + "\n\n",
		[]string{`data: {"index":0,"content":"","st`},
		`data: {"error":`,
	}
)

// TestStreamsWithoutTheirEnd: for every kind of engine and API, a stream that ends without its mark, or within it, is
// told as a failure, by an event where the form allows it and always by a cut connection; with it, whatever its line
// ends and what follows, it is not. Where no mark is known, nothing is told before the server has shown that it always
// sends one.
func TestStreamsWithoutTheirEnd(t *testing.T) {
	known := []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp, fleet.KindOllama}
	for _, tt := range []struct {
		path  string
		form  streamForm
		kinds []fleet.Kind // that are known to send the mark
	}{
		{"/v1/chat/completions", openAIForm, known},
		{"/v1/completions", completionsForm, known},
		{"/v1/responses", responsesForm, known},
		{"/v1/messages", messagesForm, known},
		{"/generate", generateForm, []fleet.Kind{fleet.KindSGLang}},
		{"/api/chat", ollamaChatForm, []fleet.Kind{fleet.KindOllama, fleet.KindSGLang}},
		{"/api/generate", ollamaGenerateForm, []fleet.Kind{fleet.KindOllama, fleet.KindSGLang}},
		{"/completion", nativeForm, []fleet.Kind{fleet.KindLlamaCpp}},
		{"/completions", nativeForm, []fleet.Kind{fleet.KindLlamaCpp}},
		{"/infill", nativeForm, []fleet.Kind{fleet.KindLlamaCpp}},
	} {
		for _, kind := range append(known, fleet.KindOther) {
			knows := false
			for _, k := range tt.kinds {
				knows = knows || k == kind
			}
			t.Run(fmt.Sprintf("%s %s", tt.path, kind), bubbled(func(t *testing.T) {
				var pieces []string
				engine := func(w http.ResponseWriter, req *http.Request) {
					streamsAs(tt.form.media, pieces...)(w, req)
				}
				r := newRig(t, proxy.Config{}, engine)
				r.fleet.Observe(route.Probed{
					Endpoint: "e0", Report: fleet.Report{Healthy: true, Kind: kind, Models: []fleet.Model{{ID: "m"}}},
				})
				ask := func(told bool, name string, send ...string) {
					t.Helper()
					pieces = send
					_, body := r.post(tt.path,
						`{"model":"m","stream":true,"messages":[],"prompt":"a","input":"a","text":"a"}`)
					sent := strings.Join(send, "")
					between := strings.HasSuffix(sent, "\n\n") ||
						tt.form.media == jsonLines && strings.HasSuffix(sent, "\n")
					switch cut := strings.Contains(body, "!"); {
					case !strings.HasPrefix(body, sent):
						t.Errorf("%s: got %q, want all of %q", name, body, sent)
					case cut != told:
						t.Errorf("%s: cut %t, want %t: %q", name, cut, told, body)
					case told && between && !strings.Contains(body[len(sent):], tt.form.told):
						t.Errorf("%s: no error in the stream: %q", name, body)
					case !told && len(body) != len(sent):
						t.Errorf("%s: something was added: %q", name, body)
					}
				}
				data := tt.form.data
				ask(knows, "ended without its mark, first", data...)
				for range 2 {
					ask(false, "whole", append(data[:len(data):len(data)], tt.form.mark)...)
				}
				ask(true, "ended without its mark", data...)
				for _, part := range tt.form.cut {
					for range 4 {
						ask(false, "whole", append(data[:len(data):len(data)], tt.form.mark)...)
					}
					ask(true, "ended within its mark", append(data[:len(data):len(data)], part)...)
				}
				ask(false, "other line ends",
					strings.ReplaceAll(strings.Join(append(data[:len(data):len(data)], tt.form.mark), ""),
						"\n", "\r\n"))
				if tt.form.media == eventStream {
					ask(false, "no space, comments after it",
						strings.ReplaceAll(strings.Join(append(data[:len(data):len(data)], tt.form.mark), ""),
							"data: ", "data:"), ": bye\n\n")
				}
			}))
		}
	}
}

// TestModelsThatRepeatThemselves: Ollama gives such a stream up. Its client is told, where that cannot be told from a
// failure, but the endpoint is not to blame; other engines end no stream so.
func TestModelsThatRepeatThemselves(t *testing.T) {
	for _, tt := range []struct {
		path string
		form streamForm
	}{
		{"/v1/chat/completions", openAIForm},
		{"/v1/completions", completionsForm},
		{"/v1/responses", responsesForm},
		{"/v1/messages", messagesForm},
		{"/api/chat", ollamaChatForm},
		{"/api/generate", ollamaGenerateForm},
	} {
		for _, kind := range []fleet.Kind{fleet.KindOllama, fleet.KindSGLang} {
			t.Run(fmt.Sprintf("%s %s", tt.path, kind), bubbled(func(t *testing.T) {
				engine := streamsAs(tt.form.media, tt.form.data...)
				r := newRig(t, proxy.Config{}, engine, engine)
				for _, name := range []string{"e0", "e1"} {
					r.fleet.Observe(route.Probed{Endpoint: name, Report: fleet.Report{
						Healthy: true, Kind: kind, Models: []fleet.Model{{ID: "m"}},
					}})
				}
				for range 30 {
					r.post(tt.path, `{"model":"m","stream":true,"messages":[],"prompt":"a","input":"a"}`)
				}
				ejected := false
				for _, s := range r.fleet.Status() {
					ejected = ejected || s.State == fleet.StateEjected
				}
				if ejected == (kind == fleet.KindOllama) {
					t.Errorf("an endpoint is ejected: %t", ejected)
				}
			}))
		}
	}
}

// TestRepetitionEndsAnAnswer: in Ollama's own API an end after one token many times in a row is how Ollama gives up,
// and passes as it came. Without the repetition it is that of a process which died.
func TestRepetitionEndsAnAnswer(t *testing.T) {
	line := func(path, word string) string {
		if path == "/api/chat" {
			return `{"model":"m","created_at":"` + time.Now().String() + `","message":{"role":"assistant","content":"` +
				word + `"},"done":false}` + "\n"
		}
		return `{"model":"m","created_at":"` + time.Now().String() + `","response":"` + word + `","done":false}` + "\n"
	}
	for _, path := range []string{"/api/chat", "/api/generate"} {
		for name, tt := range map[string]struct {
			words []string
			kind  fleet.Kind
			told  bool
		}{
			"repeats":                 {slices.Repeat([]string{" ha"}, 31), fleet.KindOllama, false},
			"repeats, in other white": {slices.Repeat([]string{" ha", "ha\\n"}, 16), fleet.KindOllama, false},
			"repeats white space":     {slices.Repeat([]string{" ", "\\n", "\\t"}, 11), fleet.KindOllama, false},
			"repeats after other words": {
				append([]string{"so", " it", " is"}, slices.Repeat([]string{"!"}, 31)...), fleet.KindOllama, false,
			},
			"repeats, but goes on":  {append(slices.Repeat([]string{"!"}, 31), " so"), fleet.KindOllama, true},
			"says different things": {[]string{"one", " two", " three"}, fleet.KindOllama, true},
			"takes turns":           {slices.Repeat([]string{"a", "b"}, 31), fleet.KindOllama, true},
			"repeats more than a token": {
				slices.Repeat([]string{strings.Repeat("long ", 20)}, 31), fleet.KindOllama, true,
			},
			"repeats, at another engine": {slices.Repeat([]string{" ha"}, 31), fleet.KindSGLang, true},
		} {
			t.Run(path+" "+name, bubbled(func(t *testing.T) {
				var lines []string
				for _, w := range tt.words {
					lines = append(lines, line(path, w))
				}
				r := newRig(t, proxy.Config{}, streamsAs(jsonLines, lines...))
				r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{
					Healthy: true, Kind: tt.kind, Models: []fleet.Model{{ID: "m"}},
				}})
				_, body := r.post(path, `{"model":"m","stream":true,"messages":[],"prompt":"a"}`)
				if told := body != strings.Join(lines, ""); told != tt.told {
					t.Errorf("told %t, want %t: %q", told, tt.told, body)
				}
			}))
		}
	}
}

// TestStreamsThatStayOpen: some servers keep a stream open when they have said its end mark. It ends for the client and
// in the books soon, and well; where more may follow, after the longest silence.
func TestStreamsThatStayOpen(t *testing.T) {
	const idle = time.Minute
	for _, tt := range []struct {
		path string
		form streamForm
		kind fleet.Kind
		soon bool
	}{
		{"/v1/chat/completions", openAIForm, fleet.KindVLLM, true},
		{"/v1/completions", completionsForm, fleet.KindSGLang, true},
		{"/v1/responses", responsesForm, fleet.KindVLLM, true},
		{"/v1/messages", messagesForm, fleet.KindLlamaCpp, true},
		{"/v1/chat/completions", openAIForm, fleet.KindOther, true},
		{"/generate", generateForm, fleet.KindSGLang, true},
		{"/api/chat", ollamaChatForm, fleet.KindOllama, true},
		{"/completion", nativeForm, fleet.KindLlamaCpp, false},
	} {
		t.Run(fmt.Sprintf("%s %s", tt.path, tt.kind), bubbled(func(t *testing.T) {
			data := append(tt.form.data[:len(tt.form.data):len(tt.form.data)], tt.form.mark)
			r := newRig(t, proxy.Config{Idle: idle}, func(w http.ResponseWriter, req *http.Request) {
				streamsAs(tt.form.media, data...)(w, req)
				<-req.Context().Done()
			})
			r.fleet.Observe(route.Probed{
				Endpoint: "e0", Report: fleet.Report{Healthy: true, Kind: tt.kind, Models: []fleet.Model{{ID: "m"}}},
			})
			began := time.Now()
			_, body := r.post(tt.path, `{"model":"m","stream":true,"messages":[],"prompt":"a","input":"a","text":"a"}`)
			took := time.Since(began)
			if s := r.last(1); s.Outcome != fleet.OK || body != strings.Join(data, "") || (took < idle/2) != tt.soon {
				t.Errorf("%s after %s: %q", s.Outcome, took, body)
			}
		}))
	}
}

// TestPingsEndNoSilence: a server pings by the clock, also when its engine has stopped computing. Pings within an
// answer end no silence; data does, however late within the limit.
func TestPingsEndNoSilence(t *testing.T) {
	const idle = time.Minute
	for _, tt := range []struct {
		path string
		form streamForm
	}{
		{"/v1/chat/completions", openAIForm},
		{"/v1/completions", completionsForm},
		{"/v1/responses", responsesForm},
		{"/v1/messages", messagesForm},
		{"/generate", generateForm},
		{"/completion", nativeForm},
	} {
		for name, ping := range map[string]string{
			"comments": ": ping\n\n", "an event": "event: ping\ndata: {\"type\": \"ping\"}\n\n",
			"data": "data: {\"type\":\"keepalive\"}\n\n",
		} {
			t.Run(tt.path+" "+name, bubbled(func(t *testing.T) {
				r := newRig(t, proxy.Config{Idle: idle}, func(w http.ResponseWriter, req *http.Request) {
					for range 3 { // slow, but it computes
						for _, data := range tt.form.data {
							streamsAs(tt.form.media, data)(w, req)
							time.Sleep(idle - time.Second)
						}
					}
					for req.Context().Err() == nil {
						streamsAs(tt.form.media, ping)(w, req)
						time.Sleep(idle / 10)
					}
				})
				began := time.Now()
				_, body := r.post(tt.path,
					`{"model":"m","stream":true,"messages":[],"prompt":"a","input":"a","text":"a"}`)
				computed := time.Duration(3*len(tt.form.data)) * (idle - time.Second)
				if took := time.Since(began); took < computed || took > computed+idle+5*time.Second {
					t.Errorf("ended after %v; it computed for %v", took, computed)
				}
				if s := r.last(1); s.Outcome != fleet.TimedOut || !strings.Contains(body, "fell silent") {
					t.Errorf("%s: %q", s.Outcome, body)
				}
			}))
		}
	}
}

// TestServersWithoutEndMarks: a server of an unknown kind that sends no mark, or only sometimes, is never blamed for
// it, and neither is one whose answer was whole by its finish_reason.
func TestServersWithoutEndMarks(t *testing.T) {
	finish := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	for name, answers := range map[string][]string{
		"never a mark":         {chunk("a"), chunk("b"), chunk("c"), chunk("d")},
		"never, with a reason": {chunk("a") + finish, chunk("b") + finish, chunk("c") + finish},
		"now and then": {
			chunk("a") + doneChunk, chunk("b"), chunk("c") + doneChunk, chunk("d"), chunk("e") + doneChunk, chunk("f"),
		},
		"whole by its reason": {
			chunk("a") + doneChunk, chunk("b") + doneChunk, chunk("c") + doneChunk, chunk("d") + finish,
		},
		"error in place of one": {
			chunk("a") + doneChunk, chunk("b") + doneChunk, chunk("c") + doneChunk,
			chunk("d") + `data: {"error":{"message":"died"}}` + "\n\n",
		},
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			n := 0
			r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
				streams(answers[n])(w, req)
			})
			r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{
				Healthy: true, Kind: fleet.KindOther, Models: []fleet.Model{{ID: "m"}},
			}})
			for n = range answers {
				if _, body := r.post("/v1/chat/completions", streamBody); body != answers[n] {
					t.Errorf("answer %d: got %q, want %q", n, body, answers[n])
				}
			}
		}))
	}
}

// TestStreamsOfNothing: whatever the kind of the engine, a stream in which nothing of an answer comes is none, and
// another engine is asked, also once the client has seen comments.
func TestStreamsOfNothing(t *testing.T) {
	whole := chunk("hi") + doneChunk
	for name, tt := range map[string]struct {
		pieces []string
		seen   string
	}{
		"no byte":            {[]string{""}, ""},
		"the end alone":      {[]string{doneChunk}, ""},
		"a comment, the end": {[]string{": hi\n\n" + doneChunk}, ""},
		"comments":           {[]string{": hi\n\n", ": ho\n\n"}, ": hi\n\n: ho\n\n"},
	} {
		for _, kind := range []fleet.Kind{fleet.KindOther, fleet.KindVLLM, fleet.KindLlamaCpp} {
			r := newRig(t, proxy.Config{}, streams(tt.pieces...), streams(whole))
			r.as(kind, "")
			if _, body := r.post("/v1/chat/completions", streamBody); body != tt.seen+whole {
				t.Errorf("%s from %s: %q", name, kind, body)
			}
		}
	}
}

// TestCommentsBeforeAnAnswer: the comments by which an engine keeps its client waiting reach it, and are no answer:
// another engine gives that when this one breaks off, fails or ends. Of a part of a comment nothing can be taken back.
func TestCommentsBeforeAnAnswer(t *testing.T) { bubble(t, commentsBeforeAnAnswer) }

func commentsBeforeAnAnswer(t *testing.T) {
	const waits = ": keep-alive\n\n"
	failed := `data: {"error":{"message":"died","code":500}}` + "\n\n"
	for _, tt := range []struct {
		name  string
		first engineHandler
		seen  string // of the first engine
		other bool   // the other one's answer follows
	}{
		{"ends", spaced(false, waits, waits), waits + waits, true},
		{"breaks off", spaced(true, waits, waits), waits + waits, true},
		{"fails", spaced(false, waits, failed), waits, true},
		{"has lines that end otherwise", spaced(true, ": a\r\n\r\n", ":\r\r"), ": a\r\n\r\n:\r\r", true},
		{"breaks off within one", spaced(true, waits, ": keep"), waits + ": keep", false},
		{"has begun", spaced(true, waits, chunk("x")), waits + chunk("x"), false},
	} {
		for _, form := range []struct {
			path, body string
			form       streamForm
		}{
			{"/v1/chat/completions", streamBody, openAIForm},
			{"/v1/responses", `{"model":"m","stream":true,"input":"x"}`, responsesForm},
			{"/v1/messages", `{"model":"m","stream":true,"max_tokens":9,"messages":[]}`, messagesForm},
		} {
			whole := strings.Join(form.form.data, "") + form.form.mark
			r := newRig(t, proxy.Config{}, tt.first, streams(whole))
			res, body := r.post(form.path, form.body)
			switch {
			case !strings.HasPrefix(body, tt.seen):
				t.Errorf("%s %s: the client got %q", form.path, tt.name, body)
			case tt.other && body != tt.seen+whole, !tt.other && strings.Contains(body, whole):
				t.Errorf("%s %s: behind %q came %q", form.path, tt.name, tt.seen, body[len(tt.seen):])
			}
			if res.StatusCode != 200 || res.Header.Get("X-Session-Id") == "" {
				t.Errorf("%s %s: %d %v", form.path, tt.name, res.StatusCode, res.Header)
			}
			if ok := r.last(1).Outcome == fleet.OK; ok != tt.other {
				t.Errorf("%s %s: outcome %s", form.path, tt.name, r.last(1).Outcome)
			}
			r = newRig(t, proxy.Config{}, tt.first) // there is no other
			if _, body := r.post(form.path, form.body); !strings.HasPrefix(body, tt.seen) ||
				endsLine(tt.seen) && !strings.Contains(body[len(tt.seen):], `"error"`) {
				t.Errorf("%s %s, with no other engine: %q", form.path, tt.name, body)
			}
		}
	}
}

// TestSpaceBeforeAnAnswer: the white space by which a server keeps the client of a plain answer waiting (oMLX's
// _with_json_keepalive) reaches it, and is no answer: another engine gives that when this one breaks off, fails, hangs
// or ends. Without another one the client gets no answer that it could take for whole.
func TestSpaceBeforeAnAnswer(t *testing.T) { bubble(t, spaceBeforeAnAnswer) }

func spaceBeforeAnAnswer(t *testing.T) {
	const (
		failed = `{"error":{"message":"died","code":500}}`
		hangs  = time.Minute
	)
	plain := func(h engineHandler) engineHandler {
		return func(w http.ResponseWriter, r *http.Request) { h(typed{w, "application/json"}, r) }
	}
	space := []string{" ", "  ", "\r\n\t"}
	seen := strings.Join(space, "")
	for _, form := range []struct{ path, body, whole string }{
		{"/v1/chat/completions", `{"model":"m","messages":[]}`, `{"choices":[],"usage":{"prompt_tokens":20,` +
			`"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}`},
		{"/v1/responses", `{"model":"m","input":"x"}`, `{"id":"r","object":"response","usage":{"input_tokens":20,` +
			`"output_tokens":2,"input_tokens_details":{"cached_tokens":16}}}`},
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[]}`, `{"type":"message","usage":{"input_tokens":4,` +
			`"cache_read_input_tokens":16,"output_tokens":2}}`},
	} {
		answers := plain(streams(form.whole))
		for name, first := range map[string]engineHandler{
			"answers":    plain(spaced(false, " ", "  ", "\r\n\t"+form.whole)),
			"ends":       plain(spaced(false, space...)),
			"breaks off": plain(spaced(true, space...)),
			"fails":      plain(spaced(false, " ", "  ", "\r\n\t", failed)),
			"hangs": plain(func(w http.ResponseWriter, r *http.Request) {
				spaced(false, space...)(w, r)
				<-r.Context().Done()
			}),
		} {
			cfg := proxy.Config{Answer: hangs, Idle: time.Hour}
			r := newRig(t, cfg, first, answers)
			began := time.Now()
			res, body := r.post(form.path, form.body)
			s := r.last(1)
			if body != seen+form.whole || res.Header.Get("Content-Type") != "application/json; charset=utf-8" ||
				res.Header.Get("X-Session-Id") == "" || time.Since(began) > hangs+time.Second {
				t.Errorf("%s %s: %q %v", form.path, name, body, res.Header)
			}
			if s.Outcome != fleet.OK || s.Usage.PromptTokens != 20 || s.Usage.CachedTokens != 16 ||
				name == "answers" && s.FirstByte.Sub(began) != 2*time.Second {
				t.Errorf("%s %s: %s %+v %s", form.path, name, s.Outcome, s.Usage, s.FirstByte.Sub(began))
			}
			for what, cfg := range map[string]proxy.Config{
				"no other engine": cfg, "no retries": {Retries: -1, Answer: hangs},
			} {
				r = newRig(t, cfg, first)
				_, body = r.post(form.path, form.body)
				rest, is := strings.CutPrefix(body, seen)
				switch {
				case !is:
					t.Errorf("%s %s, %s: %q", form.path, name, what, body)
				case name == "answers" && rest != form.whole, name == "fails" && rest != failed,
					name != "answers" && name != "fails" && !strings.Contains(rest, "!"):
					t.Errorf("%s %s, %s: %q", form.path, name, what, rest)
				}
			}
		}
	}
}

// TestHeaderBeforeComments: the header that comes before an engine's comments says nothing of that engine, since
// another may answer. Where none may, it is the engine's own.
func TestHeaderBeforeComments(t *testing.T) {
	first := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Of-Engine", "e0")
		w.Header().Set("Content-Length", "14")
		streams(": keep-alive\n\n")(w, r)
	}
	for _, retries := range []int{-1, 1} {
		cfg := tokens()
		cfg.Retries = retries
		r := newRig(t, cfg, first, streams(chunk("hi")+doneChunk))
		res, body := r.post("/v1/chat/completions", streamBody)
		h := res.Header
		own := h.Get("X-Of-Engine") != "" && h.Get(tokenHeader) != "" && h.Get("X-Warmpath-Endpoint") == "e0"
		none := h.Get("X-Of-Engine")+h.Get(tokenHeader)+h.Get("X-Warmpath-Endpoint")+h.Get("Content-Length") == ""
		if retries < 0 && !own || retries == 1 && !none {
			t.Errorf("with %d retries: %v", retries, h)
		}
		if h.Get("X-Session-Id") == "" || h.Get("Content-Type") != "text/event-stream; charset=utf-8" && retries == 1 {
			t.Errorf("with %d retries: %v", retries, h)
		}
		if strings.Contains(body, "[DONE]") != (retries == 1) {
			t.Errorf("with %d retries: %q", retries, body)
		}
	}
}

// TestCommentsAfterAnAnswerThatIsNoStream: the router's own comments have ended with an answer that was none, and the
// next engine's take their place.
func TestCommentsAfterAnAnswerThatIsNoStream(t *testing.T) {
	bubble(t, commentsAfterAnAnswerThatIsNoStream)
}

func commentsAfterAnAnswerThatIsNoStream(t *testing.T) {
	fails := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"error":{"message":"died","code":500}}`)
	}
	whole := ": hi\n\n" + chunk("a") + doneChunk
	r := newRig(t, proxy.Config{Comments: time.Hour}, fails, spaced(false, ": hi\n\n", chunk("a")+doneChunk))
	if _, body := r.post("/v1/chat/completions", streamBody); body != whole {
		t.Errorf("the client got %q, want %q", body, whole)
	}
}

// TestNoCommentWithinALine: the router removes the usage that it has asked for, and so holds the beginning of a line
// back. The rest of that line is no comment, even if it begins with a colon.
func TestNoCommentWithinALine(t *testing.T) { bubble(t, noCommentWithinALine) }

func noCommentWithinALine(t *testing.T) {
	rest := `:"x","choices":[{"delta":{"content":"a"}}]}` + "\n\n"
	r := newRig(t, proxy.Config{}, spaced(false, ": hi\n\n", `data: {"id"`, rest, doneChunk))
	r.as(fleet.KindVLLM, "")
	want := ": hi\n\n" + `data: {"id"` + rest + doneChunk
	if _, body := r.post("/v1/chat/completions", `{"model":"m","stream":true}`); body != want {
		t.Errorf("the client got %q, want %q", body, want)
	}
}

// spaced sends the pieces a second after each other, and at last may cut the connection.
func spaced(cut bool, pieces ...string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, p := range pieces {
			streams(p)(w, r)
			time.Sleep(time.Second)
		}
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
}

func endsLine(s string) bool { return strings.HasSuffix(s, "\n") || strings.HasSuffix(s, "\r") }

// streamsAs is streams with a media type.
func streamsAs(media string, pieces ...string) engineHandler {
	inner := streams(pieces...)
	return func(w http.ResponseWriter, r *http.Request) { inner(typed{w, media}, r) }
}

// typed is an answer whose media type is another one than its handler says.
type typed struct {
	http.ResponseWriter
	media string
}

func (w typed) Write(p []byte) (int, error) {
	w.Header().Set("Content-Type", w.media)
	return w.ResponseWriter.Write(p)
}

func (w typed) Unwrap() http.ResponseWriter { return w.ResponseWriter }
