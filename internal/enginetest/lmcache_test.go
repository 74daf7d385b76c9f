package enginetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// lmEngine is a simulated vLLM with LMCache on two ranks.
func lmEngine(t *testing.T, latency time.Duration) (*enginetest.Server, string) {
	t.Helper()
	s, err := enginetest.New(enginetest.Options{Connector: "lmcache", TP: 2, Models: []string{"m"}, KVLatency: latency})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s, url
}

// TestLMCacheRefuses: requests at which a real prefiller would fail or hang, or which a decoder would answer without
// the cache or from another, are rejected.
func TestLMCacheRefuses(t *testing.T) {
	p, prefiller := lmEngine(t, time.Millisecond)
	d, decoder := lmEngine(t, time.Millisecond)
	slow, slowly := lmEngine(t, time.Minute)
	to, err := d.ListenKV("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(url, id, members string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, url+"/v1/completions",
			strings.NewReader(`{"model":"m",`+members+`}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Request-Id", id)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	spec := func(init, alloc string) string {
		return fmt.Sprintf(`"kv_transfer_params":{"ret_first_tok":true,"disagg_spec":{"req_id":"x","receiver_host":"127.0.0.1","receiver_init_port":%s,"receiver_alloc_port":%s}}`, init, alloc)
	}
	init, alloc := fmt.Sprintf("[%d,%d]", to.InitPorts[0], to.InitPorts[1]), fmt.Sprintf("[%d,%d]", to.AllocPorts[0],
		to.AllocPorts[1])
	good := spec(init, alloc)
	const one = `"prompt":[1,2,3],"max_tokens":1,`
	refused := uint64(0)
	for name, members := range map[string]string{
		"too few ports": one + spec(fmt.Sprintf("[%d]", to.InitPorts[0]), alloc),
		"no ports": one + strings.Replace(good, `"receiver_alloc_port":`+alloc,
			`"receiver_query_port":[1,2]`, 1),
		"ranks exchanged": one + spec(fmt.Sprintf("[%d,%d]", to.InitPorts[1], to.InitPorts[0]), alloc),
		"ports exchanged": one + spec(alloc, init),
		"no id":           one + strings.Replace(good, `"req_id":"x",`, "", 1),
		"unknown member":  one + strings.Replace(good, `"req_id"`, `"rank":1,"req_id"`, 1),
		"no first token":  one + strings.Replace(good, `"ret_first_tok":true,`, "", 1),
		"two tokens":      `"prompt":[1,2,3],"max_tokens":2,` + good,
		"a stream":        one + `"stream":true,` + good,
	} {
		refused++
		if status, got := ask(prefiller, name, members); status != http.StatusBadRequest ||
			!strings.Contains(got, "SimulatedProtocolError") || p.KV().Refused != refused {
			t.Errorf("%s: %d %s, %d refused", name, status, got, p.KV().Refused)
		}
	}
	if status, got := ask(prefiller, "nobody", one+spec("[1,2]", "[3,4]")); status != http.StatusInternalServerError {
		t.Errorf("a decoder that is not there: %d %s", status, got)
	}
	// In the right order, and then in the wrong one.
	status, got := ask(prefiller, "a", one+good)
	if status != http.StatusOK || !strings.Contains(got, `"kv_transfer_params":{"first_tok":`) {
		t.Fatalf("%d %s", status, got)
	}
	var token uint32
	_, _ = fmt.Sscanf(got[strings.Index(got, `"first_tok":`):], `"first_tok":%d`, &token)
	for range 20_000 { // more than a minute
		if p.KV().Handed == 1 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if status, got := ask(decoder,
		"a", fmt.Sprintf(`"prompt":[1,2,3,%d],"max_tokens":5`, token)); status != http.StatusOK || d.KV().Loaded != 1 {
		t.Errorf("%d %s, %+v", status, got, d.KV())
	}
	again := func(name, id, prompt string) {
		t.Helper()
		before := d.KV().Refused
		if status, got := ask(decoder, id, `"prompt":`+prompt+`,"max_tokens":5`); status != http.StatusBadRequest ||
			d.KV().Refused != before+1 {
			t.Errorf("%s: %d %s", name, status, got)
		}
	}
	for i, prompt := range []string{"[1,2,4]", fmt.Sprintf("[1,2,3,%d]", token+1), "[1,2]"} {
		id := fmt.Sprint("b", i)
		handed := p.KV().Handed
		if status, got := ask(prefiller, id, one+strings.Replace(good, `"x"`, `"`+id+`"`, 1)); status != http.StatusOK {
			t.Fatalf("%d %s", status, got)
		}
		for n := 0; n < 20_000 && p.KV().Handed == handed; n++ {
			time.Sleep(5 * time.Millisecond)
		}
		again("another prompt or token", id, prompt)
	}
	if status, got := ask(slowly, "c", one+strings.Replace(good, `"x"`, `"c"`, 1)); status != http.StatusOK ||
		slow.KV().Open != 1 {
		t.Fatalf("%d %s", status, got)
	}
	again("too early", "c", "[1,2,3]")
}
