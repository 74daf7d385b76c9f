package migrate

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// trtTopKeys are the keys at the top that are the orchestrator's own (tensorrt_llm/llmapi/disagg_utils.py). Any other
// one is inherited by both sections of servers.
func trtTopKeys() []string {
	return []string{
		"hostname", "port", "max_retries", "perf_metrics_max_requests", "node_id", "schedule_style",
		"conditional_disagg_config", "otlp_config",
		"context_servers", "generation_servers", "disagg_cluster", "return_perf_metrics", "perf_metrics_output_dir",
		"allow_request_chat_template", "gen_strip_message_history", "gen_tokids_ctxbytes", "num_workers",
		"disagg_coordinator_url", "conversation_affinity_header_for_subagents", "subagent_affinity_scope",
	}
}

// trtRouters are the types of routers that it knows.
func trtRouters() []string {
	return []string{"round_robin", "load_balancing", "kv_cache_aware", "conversation"}
}

// strict collects what trtllm-serve disaggregated would refuse to start with.
type strict struct {
	file   string
	faults []error
}

func (s *strict) fault(n *node, format string, args ...any) {
	line := 1
	if n != nil {
		line = n.line
	}
	s.faults = append(s.faults, fmt.Errorf("%s:%d: "+format, append([]any{s.file, line}, args...)...))
}

// CheckTRTLLM reports every place of the YAML of trtllm-serve disaggregated with which that would not start, as
// "file:line: what", joined into one error. File alone converts what it can.
func CheckTRTLLM(file string, data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("%s is larger than %d MiB", file, MaxBytes>>20)
	}
	root, err := parseTree(file, data)
	if err != nil {
		return err
	}
	s := &strict{file: file}
	s.whole(root, "port", 1, 65535)
	s.whole(root, "max_retries", 0, 100)
	s.whole(root, "perf_metrics_max_requests", 0, 1_000_000)
	s.whole(root, "node_id", 0, 255)
	s.whole(root, "num_workers", 1, 64)
	if n := root.get("schedule_style"); n != nil && n.text != "context_first" && n.text != "generation_first" {
		s.fault(n, "schedule_style is %q, must be context_first or generation_first", n.text)
	}
	cluster := root.get("disagg_cluster")
	s.cluster(cluster)
	generation := ""
	for _, key := range []string{"context_servers", "generation_servers"} {
		generation = s.servers(root, key, cluster != nil)
	}
	if c := root.get("conditional_disagg_config"); c != nil {
		s.only(c, "conditional_disagg_config", "max_local_prefill_length")
		s.whole(c, "max_local_prefill_length", 0, 1<<31)
		if generation != "kv_cache_aware" {
			s.fault(c, "conditional_disagg_config requires the router of generation_servers to be of type "+
				"kv_cache_aware, not %s", generation)
		}
	}
	return errors.Join(s.faults...)
}

// whole checks a whole number, where it is given.
func (s *strict) whole(in *node, key string, least, most int) {
	n := in.get(key)
	if n == nil {
		return
	}
	if v, err := strconv.Atoi(n.text); err != nil || !n.scalar || v < least || v > most {
		s.fault(n, "%s is %q, must be a whole number from %d to %d", key, n.text, least, most)
	}
}

// only refuses members of a mapping that have none of the names.
func (s *strict) only(in *node, path string, names ...string) {
	if in.list || in.scalar && in.text != "" {
		s.fault(in, "%s must be a mapping", path)
		return
	}
	for _, n := range in.items {
		if !slices.Contains(names, n.key) {
			s.fault(n, "%s has no setting %q; known: %s", path, n.key, strings.Join(names, ", "))
		}
	}
}

// cluster checks disagg_cluster, in which unknown keys are refused.
func (s *strict) cluster(c *node) {
	if c == nil {
		return
	}
	s.only(c, "disagg_cluster", "cluster_uri", "cluster_name", "minimal_instances", "heartbeat_interval_sec",
		"inactive_timeout_sec")
	uri := c.get("cluster_uri")
	if uri == nil || uri.text == "" {
		s.fault(c, "disagg_cluster needs cluster_uri")
	} else if scheme, host, ok := strings.Cut(uri.text, "://"); !ok || host == "" ||
		!slices.Contains([]string{"http", "https", "etcd"}, scheme) {
		s.fault(uri, "cluster_uri is %q, must be http://HOST:PORT or etcd://HOST:PORT", uri.text)
	}
	for _, key := range []string{"heartbeat_interval_sec", "inactive_timeout_sec"} {
		s.whole(c, key, 0, 1<<20)
	}
	if m := c.get("minimal_instances"); m != nil {
		s.only(m, "minimal_instances", "context_servers", "generation_servers")
		s.whole(m, "context_servers", 0, 1<<20)
		s.whole(m, "generation_servers", 0, 1<<20)
	}
}

// servers checks a section of servers and what it inherits, and returns the type of its router.
func (s *strict) servers(root *node, key string, discovered bool) (router string) {
	sec := root.get(key)
	router = "round_robin"
	switch {
	case sec == nil && discovered:
	case sec == nil:
		s.fault(root, "%s is missing: at least one server is needed", key)
		return router
	case sec.list || sec.scalar && sec.text != "":
		s.fault(sec, "%s must be a mapping", key)
		return router
	}
	for _, n := range root.items {
		own := sec.get(n.key)
		if slices.Contains(trtTopKeys(), n.key) || own == nil || sameNode(n, own) {
			continue
		}
		s.fault(own, "%s.%s conflicts with the %s of line %d, which both sections inherit", key, n.key, n.key, n.line)
	}
	if !discovered {
		s.urls(sec, key)
	}
	r := sec.get("router")
	if r == nil {
		r = root.get("router")
	}
	if t := r.get("type"); t != nil {
		router = strings.ToLower(t.text)
		if !slices.Contains(trtRouters(), router) {
			s.fault(t, "router type %q is not known; the types are %s", t.text, strings.Join(trtRouters(), ", "))
		}
	}
	return router
}

// urls checks the addresses of a section.
func (s *strict) urls(sec *node, key string) {
	urls, count := sec.get("urls"), 0
	if urls != nil && !urls.list {
		s.fault(urls, "%s.urls must be a list", key)
		return
	}
	if urls != nil {
		count = len(urls.items)
		for _, u := range urls.items {
			host, port, err := net.SplitHostPort(u.text)
			if n, bad := strconv.Atoi(port); err != nil || bad != nil || host == "" || n < 1 || n > 65535 ||
				strings.Contains(u.text, "/") {
				s.fault(u, "%s.urls: %q is not host:port, without a scheme", key, u.text)
			}
		}
	}
	n := sec.get("num_instances")
	switch {
	case n != nil && n.text != strconv.Itoa(count):
		s.fault(n, "%s.num_instances is %s, and there are %d urls: the numbers must be equal", key, n.text, count)
	case count == 0:
		s.fault(sec, "%s has no urls: at least one server is needed", key)
	}
}

// sameNode reports whether two values are the same.
func sameNode(a, b *node) bool {
	if a.scalar != b.scalar || a.list != b.list || a.text != b.text || len(a.items) != len(b.items) {
		return false
	}
	for i, x := range a.items {
		y := b.items[i]
		if !a.list {
			y = b.get(x.key)
		}
		if y == nil || !sameNode(x, y) {
			return false
		}
	}
	return true
}
