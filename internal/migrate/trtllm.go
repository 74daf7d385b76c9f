package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	perRequest = "figures of single requests are in the log (log.requests), in GET /admin/decisions and in traces"
	oneProcess = "one process uses all cores and keeps one state"
	bodiesPass = "bodies are passed on as they are"
	spansGo    = "set otlp.endpoint to a collector, such as http://127.0.0.1:4318, with otlp.signals: [traces]"
)

// readTRTLLM reads the YAML of trtllm-serve disaggregated. A key at the top that is none of its own is inherited by
// both sections of servers.
func readTRTLLM(d *draft, root *node) {
	d.listen(root.take("hostname"), root.take("port"), "localhost", "8000")
	if n := root.get("max_retries"); n != nil {
		d.number(n.line, "max_retries", root.take("max_retries"), "limits.retries", 0, 100)
	}
	context := d.trtServers(root, "context_servers", rolePrefill)
	if context != "" {
		d.set("policy.name", context)
	}
	generation := d.trtServers(root, "generation_servers", roleDecode)
	ranks := ""
	if root.get("context_servers") == nil && root.get("generation_servers") == nil { // the configuration of one engine
		ranks = d.trtRanks(root, nil, "")
	}
	d.set("policy.name", cmp.Or(context, generation, ranks, "trtllm.round_robin"))
	if context != "" && generation != "" && generation != context {
		d.set("disaggregation.decode_policy", generation)
	}
	d.trtSplit(root)
	d.trtServe(root)
	for _, k := range []struct{ key, why string }{
		{"return_perf_metrics", perRequest},
		{"perf_metrics_output_dir", "explain.file writes decisions and what came of them as lines of JSON"},
		{"otlp_config", spansGo},
		{"num_workers", oneProcess},
		{"disagg_coordinator_url", oneProcess},
		{"allow_request_chat_template", bodiesPass},
		{
			"conversation_affinity_header_for_subagents", "identity.parents lists the headers in which a sub-agent " +
				"says whose it is; the known ones are looked for without",
		},
		{"subagent_affinity_scope", "a sub-agent goes to its parent's endpoint where that costs hardly more"},
	} {
		if n := root.get(k.key); n != nil {
			d.miss(n.line, k.key, k.why)
			n.usedWhole()
		}
	}
	for _, key := range []string{
		"max_batch_size", "max_num_tokens", "kv_cache_config", "router", "attention_dp_config", idFormKey,
	} {
		root.get(key).usedWhole() // inherited by both sections
	}
}

// trtServers reads a section of servers and returns the policy that its router comes to, "" when it has no servers.
func (d *draft) trtServers(root *node, key, role string) string {
	s := root.get(key)
	if s == nil {
		return ""
	}
	s.used = true
	urls, form := s.get("urls"), d.trtIDForm(root, s, key)
	if n := s.get("num_instances"); n != nil {
		if got := len(s.texts("urls")); s.take("num_instances") != fmt.Sprint(got) {
			d.miss(n.line, key+".num_instances"+show(n.text), fmt.Sprintf("there are %d urls, and these count", got))
		}
	}
	if urls != nil && !urls.scalar {
		for _, u := range urls.items {
			if u.used = true; u.scalar && u.text != "" {
				d.add(u.line, endpoint{url: u.text, kind: "trtllm", role: role, idForm: form})
			}
		}
	}
	policy := d.trtRouter(root, s, key, role)
	if ranks := d.trtRanks(root, s, key); ranks != "" {
		policy = ranks
	}
	for _, inherited := range []string{"max_batch_size", "max_num_tokens", "kv_cache_config"} {
		s.get(inherited).usedWhole() // what of it counts for a router has been read
	}
	if urls == nil {
		if form != "" {
			d.miss(s.line, key+"."+idFormKey+show(form),
				"workers that register themselves are told conversations as auto does; declare urls to say how")
		}
		return ""
	}
	return policy
}

// trtRouter reads the router of a section.
func (d *draft) trtRouter(root, s *node, key, role string) string {
	r, at := s.get("router"), key+".router"
	if r == nil {
		r, at = root.get("router"), "router"
	}
	name := "trtllm.round_robin"
	if r != nil {
		r.used = true
		if t := strings.ToLower(r.take("type")); t != "" {
			name = "trtllm." + t
		}
	}
	switch name {
	case "trtllm.round_robin", "trtllm.load_balancing", "trtllm.kv_cache_aware", "trtllm.conversation":
	default:
		d.miss(r.get("type").line, at+".type"+show(r.take("type")), "no such router; trtllm.round_robin is taken")
		name = "trtllm.round_robin"
	}
	router := strings.TrimPrefix(name, "trtllm.")
	under := "policy.trtllm." + router + "."
	if role == rolePrefill || d.has("policy.name") != name {
		d.trtOptions(root, s, r, at, router, under)
		return name
	}
	own := trtDecodeOptions + "." + router + "."
	d.trtOptions(root, s, r, at, router, own)
	d.trtShare(router, under, own)
	return name
}

// trtDecodeOptions are the options of the router of generation_servers, where that of context_servers has the same
// type.
const trtDecodeOptions = "disaggregation.decode_trtllm"

// trtShare states the options of the second of two routers of one type only if they differ from the first's.
func (d *draft) trtShare(router, under, own string) {
	names := []string{"score"}
	for _, o := range trtOptionsOf(router) {
		names = append(names, o.name)
	}
	same, some := true, false
	for _, name := range names {
		same = same && d.has(under+name) == d.has(own+name)
		some = some || d.has(own+name) != nil
	}
	switch {
	case same:
		for _, name := range names {
			d.unset(own + name)
		}
	case !some: // all are the defaults
		d.set(trtDecodeOptions, map[string]any{})
	}
}

// trtOption says what an option of a router is: a number within bounds or a truth value.
type trtOption struct {
	name   string
	lo, hi float64
	truth  bool
}

func trtOptionsOf(router string) []trtOption {
	switch router {
	case "load_balancing":
		return []trtOption{{name: "use_tokens", truth: true}}
	case "kv_cache_aware":
		return []trtOption{
			{name: "use_tokens", truth: true},
			{name: "max_batch_size", lo: 1, hi: 1 << 20},
			{name: "tokens_per_block", lo: 1, hi: 1 << 20},
			{name: "track_routed_blocks", truth: true},
			{name: "backfill_block_hashes_on_finish", truth: true},
			{name: "load_weight", lo: 0, hi: 1e9},
			{name: "load_cap", lo: 0, hi: 1e9},
		}
	case "conversation":
		return []trtOption{
			{name: "match_threshold", lo: 0, hi: 1},
			{name: "tokens_per_block", lo: 1, hi: 1 << 20},
			{name: "use_token_ids", truth: true},
			{name: "hash_skip_count", lo: 0, hi: 1 << 30},
			{name: "max_sessions", lo: 1, hi: 1 << 24},
		}
	}
	return nil
}

// trtValue is where an option of the router that is taken has its value, and the value. max_batch_size and
// tokens_per_block of the servers' section count too, as TensorRT-LLM copies them: the first over what the router says,
// the second under it.
func trtValue(root, s, r *node, router, name string) (*node, string) {
	own := r.get(name)
	all := []*node{own}
	switch {
	case name == "max_batch_size":
		all = []*node{s.get(name), root.get(name), own}
	case name == "tokens_per_block" && router == "kv_cache_aware":
		all = []*node{own, s.get("kv_cache_config", name), root.get("kv_cache_config", name)}
	}
	for _, n := range all {
		if n != nil {
			return n, n.text
		}
	}
	return nil, ""
}

// trtOptions copies the options of the router that is taken.
func (d *draft) trtOptions(root, s, r *node, at, router, under string) {
	for _, o := range trtOptionsOf(router) {
		n, text := trtValue(root, s, r, router, o.name)
		switch {
		case n == nil:
			continue
		case o.truth:
			d.boolean(n.line, at+"."+o.name, text, under+o.name)
		default:
			d.number(n.line, at+"."+o.name, text, under+o.name, o.lo, o.hi)
		}
		n.used = true
	}
	if r == nil {
		return
	}
	if router == "kv_cache_aware" && (r.get("load_weight") != nil || r.get("load_cap") != nil) {
		d.set(under+"score", "blocks") // only that formula has them
	}
	for _, n := range r.items {
		d.trtEntry(n, at, router)
		n.usedWhole()
	}
}

// trtEntry says what becomes of an entry of the router's section that is not copied as an option.
func (d *draft) trtEntry(n *node, at, router string) {
	switch n.key {
	case "type":
	case "tokenizer_dir", "model_path", "use_harmony":
		d.trtTokenizer(n, at, router)
	case "custom_tokenizer":
		d.miss(n.line, at+"."+n.key+show(n.text), "it names Python code, and none runs here; prompts are "+
			"recognised by their bytes, and tokenizer_dir with the model's tokenizer.json ties KV events to them")
	case "args":
		d.miss(n.line, at+".args", "TensorRT-LLM ignores options below args; they belong directly below router")
	case "max_sessions": // of PR 14744: the ids by which its orchestrator tells first turns, whatever the router
		if router != "conversation" {
			d.number(n.line, at+"."+n.key, n.text, "sessions.seen_ids", 1, 1<<24)
		}
	default:
		if known := slices.ContainsFunc(trtOptionsOf(router), func(o trtOption) bool {
			return o.name == n.key
		}); !known {
			d.miss(n.line, at+"."+n.key+show(n.text), router+" has no such option; TensorRT-LLM ignores it")
		}
	}
}

// trtTokenizer copies where the tokenizer is.
func (d *draft) trtTokenizer(n *node, at, router string) {
	path, from := "policy.trtllm."+router+"."+n.key, at+"."+n.key
	other := map[string]string{"kv_cache_aware": "conversation", "conversation": "kv_cache_aware"}[router]
	theirs := cmp.Or(d.has("policy.trtllm."+other+".tokenizer_dir"), d.has("policy.trtllm."+other+".model_path"))
	switch {
	case n.text == "" || n.text == "null" || n.text == "~":
	case router != "kv_cache_aware" && router != "conversation":
		d.miss(n.line, from+show(n.text), router+" has no such option; TensorRT-LLM ignores it")
	case d.has(path) != nil:
		if fmt.Sprint(d.has(path)) != n.text {
			d.miss(n.line, from+show(n.text),
				"both roles share the options of a policy, and that of context_servers counts")
		}
	case n.key == "use_harmony":
		d.boolean(n.line, from, n.text, path)
	case theirs != nil && theirs != n.text:
		d.miss(n.line, from+show(n.text), "one tokenizer serves all engines, and that of context_servers counts")
	default:
		d.set(path, n.text)
	}
}

// trtllmFlags are those of trtllm-serve disaggregated, beside the file.
func trtllmFlags(d *draft) []flag {
	return slices.Concat(
		none("give the file itself: warmpath check --from trtllm FILE", "config-file"),
		none("have discovery.etcd follow its hostname and port with the prefix trtllm/: "+
			"what servers write there is read", "metadata-server-config-file"),
		nothing("server-start-timeout"),
		[]flag{
			one("log-level", d.logLevel),
			one("request-timeout", func(line int, v string) {
				d.seconds(line, "--request-timeout", v, "timeouts.answer")
			}),
		})
}

// trtllmShort is the long form of its short flags.
func trtllmShort(text string) string {
	switch text {
	case "-c":
		return "--config-file"
	case "-m":
		return "--metadata-server-config-file"
	case "-t":
		return "--server-start-timeout"
	case "-r":
		return "--request-timeout"
	case "-l":
		return "--log-level"
	}
	return text
}
