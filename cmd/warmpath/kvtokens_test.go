package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/tokenizer"
	"github.com/warmpath/warmpath/kvstream"
	simtext "github.com/warmpath/warmpath/sim/text"
)

// smallModel writes a model's directory with a small tokenizer, as Hugging Face has them: byte-level BPE that knows the
// words of simtext.Of, and a chat template.
func smallModel(t *testing.T) (dir string, loaded *tokenizer.Tokenizer) {
	t.Helper()
	dir = t.TempDir()
	vocab, merges := map[string]int{}, [][2]string{}
	add := func(token string) {
		if _, known := vocab[token]; !known {
			vocab[token] = len(vocab)
		}
	}
	extra := rune(256)
	for b := range rune(256) { // GPT-2's alphabet: bytes that cannot be printed stand for letters from 256 on
		switch {
		case b >= '!' && b <= '~', b >= '¡' && b <= '¬', b >= '®':
			add(string(b))
		default:
			add(string(extra))
			extra++
		}
	}
	for _, word := range strings.Fields(simtext.Of(1, 20_000)) {
		have := "Ġ"
		for _, c := range strings.Trim(word, ".") {
			if _, known := vocab[have+string(c)]; !known {
				merges = append(merges, [2]string{have, string(c)})
			}
			have += string(c)
			add(have)
		}
	}
	added := []map[string]any{}
	for _, special := range []string{"<|im_start|>", "<|im_end|>"} {
		added = append(added, map[string]any{
			"id": len(vocab) + len(added), "content": special, "special": true, "normalized": false,
		})
	}
	write := func(name string, v any) {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.json", map[string]any{
		"version": "1.0", "added_tokens": added,
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": merges},
	})
	write("tokenizer_config.json", map[string]any{
		"chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" +
			"{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
	})
	loaded, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, loaded
}

// TestTokenizerTellsWhatIsCached: TensorRT-LLM has no route that tokenizes, and its events have no labels. With the
// model's tokenizer the router knows the blocks of prompts as the engine computes them. How well that predicts is in
// sim.TestEventsTellWhatIsCachedWhenBusy, on a virtual clock: here ids come when the machine has time for them.
func TestTokenizerTellsWhatIsCached(t *testing.T) {
	t.Parallel()
	dir, loaded := smallModel(t)
	r, heard := kvRig(t, fleet.KindTRTLLM, func(o *enginetest.Options, c *config.Config) {
		o.Speed, o.Tokenizer, o.Engine.CacheTokens = 20, loaded, 4000
		c.Policy.Name, c.KVEvents.Tokenizer = "session", dir
	})
	w := pressing()
	w.Conversations, w.MaxTurns = 24, 8
	s := r.playOneByOne(t, w, 1)
	got := heard.take()
	if s.Failed != 0 || got.turns < 50 {
		t.Fatalf("%d of %d turns failed: %s", s.Failed, got.turns, s.LastError)
	}
	var kv kvstream.Figures
	evicted := uint64(0)
	for i, e := range r.engines {
		evicted += e.Stats().Ranks[0].Evictions
		kv.Tied, kv.Untied = kv.Tied+r.kvState(i).Tied, kv.Untied+r.kvState(i).Untied
	}
	share := float64(got.wrong) / float64(got.prompt)
	t.Logf(
		"%d turns, %.0f %% cached: off by %.2f %% of the prompts, %d by more than a block; %d blocks tied, %d not; %q",
		got.turns, 100*float64(got.found)/float64(got.prompt), 100*share, got.off, kv.Tied, kv.Untied, heard.all())
	if evicted == 0 {
		t.Error("nothing was evicted: the test shows nothing")
	}
	if unasked := r.events.Unasked(); unasked > 0 {
		t.Errorf("the tokens of %d requests were not had", unasked)
	}
	if kv.Tied < 4*kv.Untied || kv.Tied == 0 { // ids that come after their block are few on an idle machine
		t.Errorf("%d blocks are known to be of a conversation, %d are not", kv.Tied, kv.Untied)
	}
	for _, said := range heard.all() {
		if strings.Contains(said, "token ids") {
			t.Error(said)
		}
	}
}

// TestTokenizerOfTheModel: a tokenizer that cannot be read is a fault of the configuration, by name; chats of a model
// that writes them in harmony's format are left alone.
func TestTokenizerOfTheModel(t *testing.T) {
	cfg := config.Default()
	if with, err := tokenizerOf(&cfg); with != nil || err != nil {
		t.Errorf("nothing is named: %v, %v", with, err)
	}
	dir, _ := smallModel(t)
	bad := t.TempDir()
	if err := os.WriteFile(filepath.Join(bad, "tokenizer.json"),
		[]byte(`{"model":{"type":"Unigram"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Policy.Name, cfg.Policy.TRTLLM.KVCacheAware.ModelPath = "trtllm.kv_cache_aware", bad
	if _, err := tokenizerOf(&cfg); err == nil ||
		!strings.Contains(err.Error(), "policy.trtllm.kv_cache_aware.model_path: ") {
		t.Errorf("a tokenizer of another kind: %v", err)
	}
	cfg.Policy.TRTLLM.KVCacheAware.TokenizerDir = dir
	chat, text := []byte(`{"messages":[{"role":"user","content":"about it"}]}`), []byte(`{"prompt":"about it"}`)
	for _, harmony := range []bool{false, true} {
		cfg.Policy.TRTLLM.KVCacheAware.UseHarmony = &harmony
		with, err := tokenizerOf(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := with.Request(text); err != nil || len(ids) == 0 {
			t.Errorf("harmony %v, a completion: %v, %v", harmony, ids, err)
		}
		if ids, err := with.Request(chat); (err != nil) != harmony || (len(ids) > 0) == harmony {
			t.Errorf("harmony %v, a chat: %v, %v", harmony, ids, err)
		}
	}
}
