package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/proxy"
)

// backPair is a router in front of engines in NIXL's bidirectional mode.
func backPair(t *testing.T, keep, held time.Duration) *pair {
	return newPair(t, pairs{
		prefillers: 1, decoders: 1, split: always, proxy: proxy.Config{Bidirectional: keep},
		engine: func(o *enginetest.Options) { o.KVBack = held },
	})
}

// say is one turn of a conversation: what was said so far, and the next message. It returns the conversation with the
// answer.
func (p *pair) say(talk, user, more string) (string, string) {
	p.t.Helper()
	if talk != "" {
		talk += ","
	}
	talk += `{"role":"user","content":"` + user + `"}`
	body := `{"model":"m","max_tokens":12,"ignore_eos":true,"messages":[` + talk + `]` + more + `}`
	res, got := p.post("/v1/chat/completions", body, "X-Session-ID", "talk")
	want := p.askAlone("/v1/chat/completions", body)
	if res.StatusCode != 200 || textOf(p.t, got) != textOf(p.t, want) || res.Header.Get("X-Warmpath-Prefill") != "p0" {
		p.t.Fatalf("%d %s, want %s; %v", res.StatusCode, got, want, res.Header)
	}
	return talk + `,{"role":"assistant","content":"` + textOf(p.t, got) + `"}`, got
}

// TestBidirectional: the prefiller of each further turn fetches what the decoder holds of the conversation, streamed or
// not, once each, and computes what is new; off as it is by default nothing is fetched.
func TestBidirectional(t *testing.T) {
	for _, more := range []string{``, `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`} {
		for _, keep := range []time.Duration{0, time.Minute} {
			p := backPair(t, keep, time.Minute)
			talk := ""
			for turn := range 4 {
				talk, _ = p.say(talk, prose(150, string(rune('a'+turn))), more)
			}
			kv, want := p.engines["p0"].KV().BackLoaded, uint64(3)
			if keep == 0 {
				want = 0
			}
			if kv != want || p.engines["d0"].KV().BackTaken != want || p.engines["d0"].KV().BackHeld != 4 {
				t.Errorf("%q, kept for %v: %+v and %+v", more, keep, p.engines["p0"].KV(), p.engines["d0"].KV())
			}
			p.nothingWrong()
		}
	}
}

// TestBidirectionalOnlyWhatGoesOn: blocks are not fetched for a conversation that was changed, and not after their
// time, and none is fetched twice; a real engine would answer from another text.
func TestBidirectionalOnlyWhatGoesOn(t *testing.T) {
	first := prose(150, "a")
	for name, then := range map[string]func(p *pair, talk string){
		"another last word": func(p *pair, _ string) { p.say("", first+" and", "") },
		"asked again":       func(p *pair, _ string) { p.say("", first, "") },
		"another beginning": func(p *pair, talk string) {
			p.say(strings.Replace(talk, `"role":"user"`, `"role":"system"`, 1), "go on", "")
		},
		"written otherwise": func(p *pair, talk string) {
			p.say(strings.Replace(talk, `"role":"user"`, `"role": "user"`, 1), "go on", "")
		},
		"after its time": func(p *pair, talk string) {
			time.Sleep(250 * time.Millisecond)
			p.say(talk, "go on", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := backPair(t, 200*time.Millisecond, 230*time.Millisecond)
			talk, _ := p.say("", first, "")
			then(p, talk)
			if kv := p.engines["p0"].KV(); kv.BackLoaded != 0 {
				t.Errorf("%+v", kv)
			}
			p.nothingWrong()
		})
	}
	p := backPair(t, time.Minute, time.Minute)
	talk, _ := p.say("", first, "")
	p.say(talk, "one way", "")
	p.say(talk, "another way", "") // what the answer before says is of the other way
	if kv := p.engines["p0"].KV(); kv.BackLoaded != 1 {
		t.Errorf("%+v", kv)
	}
	p.nothingWrong()
}

// TestBidirectionalDecoderLost: when the decoder cannot hand back what it said, nobody is charged, and the same
// prefiller computes all of it.
func TestBidirectionalDecoderLost(t *testing.T) {
	for _, how := range []string{"the transfer breaks", "a restart", "forgotten too early"} {
		t.Run(how, func(t *testing.T) {
			held := time.Minute
			if how == "forgotten too early" {
				held = time.Millisecond
			}
			p := backPair(t, time.Minute, held)
			talk, _ := p.say("", prose(150, "a"), "")
			switch how {
			case "the transfer breaks":
				p.engines["d0"].LoseKV()
			case "a restart":
				if err := p.engines["d0"].SetFault(enginetest.Fault{Kind: enginetest.FaultRestart}); err != nil {
					t.Fatal(err)
				}
			default:
				time.Sleep(20 * time.Millisecond)
			}
			p.say(talk, "go on", "")
			for _, s := range p.fleet.Status() {
				if s.Failures > 0 {
					t.Errorf("%s was charged", s.Endpoint.Name)
				}
			}
			if legs := p.legs("p0"); legs["prefill ok"] != 2 || legs["prefill transfer_failed"] != 1 {
				t.Errorf("the prefiller's legs ended as %v", legs)
			}
		})
	}
}
