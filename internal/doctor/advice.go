package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/terminal"
)

// flags are what turns a feature on, by kind of engine, and what turns the cache off; docs/kv-events.md has more of the
// last.
var flags = map[fleet.Kind]struct{ cache, noCache, report, events string }{
	fleet.KindVLLM: {
		"--enable-prefix-caching", "", "--enable-prompt-tokens-details",
		`--kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`,
	},
	fleet.KindSGLang: {
		"", "--disable-radix-cache", "--enable-cache-report",
		`--kv-events-config '{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`,
	},
	fleet.KindTRTLLM: {
		"kv_cache_config: {enable_block_reuse: true}", "", "", "kv_cache_config: {event_buffer_max_size: 16384}",
	},
	fleet.KindLlamaCpp: {noCache: "--no-cache-prompt"},
}

// shortContext is a context that conversations soon fill, in tokens.
const shortContext = 8192

// advise writes what to change.
func (r *Report) advise() {
	with := func(flag, text string) { r.Advice = append(r.Advice, Advice{text, flag}) }
	add := func(format string, args ...any) { with("", fmt.Sprintf(format, args...)) }
	f := flags[fleet.Kind(r.Kind)]
	if !r.Healthy {
		add("The router would send it nothing. Check the address and port, that the engine has loaded its model, " +
			"TLS (SSL_CERT_FILE names a file with authorities to doctor, engine_tls.ca to the router) and key (--key).")
		return
	}
	if r.Router {
		add("This is a warmpath router, not an engine: give doctor the addresses of its engines. " +
			"warmpath endpoints shows what stands behind it.")
		return
	}
	if r.Caches == No {
		is := "is off or too small"
		if r.cacheOff {
			is = "is off"
		}
		text := "Its prefix cache " + is + ", so each turn is computed from the start."
		if f.noCache != "" {
			text += " Start it without " + f.noCache + "."
		}
		with(f.cache, text)
	}
	if (r.Caches == Yes || r.cacheOff) && r.ReportsCached == No && f.report != "" {
		with(f.report, "It does not report cached tokens. The router then only estimates what is cached.")
	}
	if len(r.KVEvents) == 0 && f.events != "" {
		with(f.events, "Optional: with KV events the router knows exactly what is cached.")
	}
	for _, e := range r.KVEvents {
		if e.Reachable == No {
			add("It publishes KV events at %s, which cannot be reached from here: open the port, "+
				"or set kv_events: off.", e.Address)
		}
	}
	if r.Streams == No {
		add("Its answer came all at once: a proxy before it collects streams (nginx: proxy_buffering off), " +
			"or its machine is overloaded.")
	}
	if r.NoticesLeave == No {
		add("It goes on computing when a client leaves. Abandoned requests then cost GPU time: update the engine, " +
			"or set max_tokens.")
	}
	if r.Kind == string(fleet.KindLlamaCpp) && 0 < r.Context && r.Context < shortContext {
		add("Its context is %d tokens for each of %d slots, and a longer conversation is refused. "+
			"Give a larger --ctx-size, which is divided by --parallel, or fewer --parallel.",
			r.Context, max(r.Slots, 1))
	}
	if r.Kind == string(fleet.KindLlamaCpp) && slices.ContainsFunc(r.Models, func(m string) bool {
		return strings.HasSuffix(m, ".gguf")
	}) {
		with("--alias NAME", "Its model is called by the path of its file, which clients have to give, and an engine "+
			"with another path has another model.")
	}
	switch r.SlotsKeep {
	case No:
		with(fmt.Sprintf("--parallel %d", r.Slots), "Its slots share one context, and it fails all of its requests "+
			"once together they need more: the router lets them wait until they fit. With a part of --ctx-size "+
			"for each slot they need not wait.")
	case Unknown:
		add("Where each of its %d slots has a context of its own (--parallel %d), declare them (slots: %d): a "+
			"conversation then finds its own.", r.Slots, r.Slots, r.Slots)
	}
	if r.ClockOff != 0 {
		add("Its clock is off by %s: run NTP on both machines.", r.ClockOff.Round(time.Second))
	}
	if r.InOrder == No && r.TogetherMs != nil && r.TogetherMs[1] < serialRatio*r.ColdMs {
		add("It computes several prompts at once, as fast as one. The router finds that out and keeps no queue for " +
			"it; queue.ahead: 0s turns the queue off for all.")
	}
}

const labelColumns = 20

// Show writes a report for people, in 80 columns.
func (r *Report) Show(w io.Writer) {
	line := func(label, format string, args ...any) {
		terminal.Entry(w, labelColumns, "  "+label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w, r.URL)
	if !r.Healthy {
		line("state", "not healthy: %s", r.Detail)
		r.showAdvice(w, line)
		return
	}
	if r.Router {
		line("router", "warmpath, with the models %s", strings.Join(r.Models, ", "))
		r.showAdvice(w, line)
		return
	}
	line("engine", "%s %s", r.Kind, r.Version)
	line("models", "%s", strings.Join(r.Models, ", "))
	if r.Context > 0 {
		line("context", "%d tokens for a prompt and its answer", r.Context)
	}
	if r.CacheTokens > 0 {
		shared := ""
		switch r.SlotsKeep {
		case No:
			shared = ", which its slots share"
		case Unknown:
			shared = fmt.Sprintf("; or %d in all, where its slots share them (--kv-unified, its default without "+
				"--parallel), which only requests show", r.CacheTokens/int64(r.Slots))
		}
		line("KV cache", "%d tokens in blocks of %d%s", r.CacheTokens, r.BlockTokens, shared)
	}
	if r.Slots > 0 {
		line("slots", "%d", r.Slots)
	}
	if r.Ranks > 1 {
		line("ranks", "%d; ranks: %d makes each an endpoint of its own. What follows is of one rank", r.Ranks, r.Ranks)
	}
	cache := works(r.Caches)
	if r.cacheOff {
		cache = "off"
	}
	line("prefix cache", "%s; cached tokens reported: %s", cache, r.ReportsCached)
	for _, e := range r.KVEvents {
		line("KV events", "%s, reachable: %s", e.Address, e.Reachable)
	}
	if len(r.KVEvents) == 0 && flags[fleet.Kind(r.Kind)].events != "" {
		line("KV events", "off, or it does not say where")
	}
	line("clock", "%s", map[Answer]string{
		Yes: "agrees with this machine's", No: "off by " + r.ClockOff.String(),
		Unknown: "unknown: its answers have no date",
	}[r.ClockAgrees])
	r.showTimes(line)
	if r.Caches == Yes && r.ColdMs > r.WarmMs {
		line("gain", "a turn with this history waits %.0f ms less where its cache is", r.ColdMs-r.WarmMs)
	}
	if r.Detail != "" {
		line("note", "%s", r.Detail)
	}
	r.showAdvice(w, line)
}

// showTimes writes what was measured.
func (r *Report) showTimes(line func(label, format string, args ...any)) {
	if r.ColdMs <= 0 {
		return
	}
	speed := fmt.Sprintf("%.0f tokens/s prefill", r.Prefill)
	if r.Decode > 0 {
		speed += fmt.Sprintf(", %.0f tokens/s decode", r.Decode)
	}
	line("speed", "%s", speed)
	again := "when they are sent again"
	if r.Caches == Yes {
		again = "when they are cached"
	}
	line("first token", "%.0f ms for %d tokens, %.0f ms %s", r.ColdMs, r.PromptTokens, r.WarmMs, again)
	if r.TogetherMs != nil {
		line("prompts",
			"computed %s: of three sent at once the first was answered after %.0f ms, the last after %.0f ms",
			map[Answer]string{Yes: "one after another", No: "together"}[r.InOrder],
			r.TogetherMs[0], r.TogetherMs[1])
	}
	line("client leaves",
		"%s", map[Answer]string{Yes: "it stops", No: "it goes on computing", Unknown: "unknown"}[r.NoticesLeave])
}

func (r *Report) showAdvice(w io.Writer, line func(label, format string, args ...any)) {
	for _, a := range r.Advice {
		if a.Flag == "" {
			line("to do", "%s", a.Text)
			continue
		}
		line("to do", "%s Start it with:", a.Text)
		fmt.Fprintf(w, "    %s\n", a.Flag) // whole, to be copied
	}
}

func works(a Answer) string {
	return map[Answer]string{Yes: "works", No: "does not work", Unknown: "unknown"}[a]
}
