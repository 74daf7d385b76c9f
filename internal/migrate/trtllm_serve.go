package migrate

import "strings"

// trtServe reads what makes the router stand in for the orchestrator.
func (d *draft) trtServe(root *node) {
	d.set("trtllm.paths", true)
	number := func(in *node, key, path string, lo, hi float64) {
		if n := in.get(key); n != nil {
			d.number(n.line, key, in.take(key), path, lo, hi)
		}
	}
	number(root, "perf_metrics_max_requests", "trtllm.perf_metrics", 0, 1_000_000)
	number(root, "node_id", "trtllm.node_id", 0, 255)
	for _, b := range []struct{ key, path string }{
		{"gen_strip_message_history", "trtllm.last_message_only"}, {"gen_tokids_ctxbytes", "trtllm.token_ids_base64"},
	} {
		if n := root.get(b.key); n != nil {
			d.boolean(n.line, b.key, root.take(b.key), b.path)
		}
	}
	c := root.get("disagg_cluster")
	if c == nil {
		return
	}
	c.used = true
	uri := c.get("cluster_uri")
	if uri == nil {
		d.miss(c.line, "disagg_cluster.cluster_uri",
			"it is missing: declare endpoints, or discovery.dns or discovery.file")
		c.usedWhole()
		return
	}
	at := c.take("cluster_uri")
	d.set("trtllm.cluster.uri", at)
	if !strings.HasPrefix(at, "etcd://") {
		d.miss(uri.line, "disagg_cluster.cluster_uri", "no worker may register yet: "+
			"name the workers' networks in trtllm.cluster.allow, or give them trtllm.cluster.listen, "+
			"and name their hosts in trtllm.cluster.allow_hosts if they register under names")
	}
	if name := c.take("cluster_name"); name != "" {
		d.set("trtllm.cluster.name", name)
	}
	number(c.get("minimal_instances"), "context_servers", "trtllm.cluster.min_context", 0, 1<<20)
	number(c.get("minimal_instances"), "generation_servers", "trtllm.cluster.min_generation", 0, 1<<20)
	if n := c.get("inactive_timeout_sec"); n != nil {
		d.seconds(n.line, "inactive_timeout_sec", c.take("inactive_timeout_sec"), "trtllm.cluster.inactive_timeout")
	}
	c.take("heartbeat_interval_sec") // the workers' own
	if m := c.get("minimal_instances"); m != nil {
		m.used = true
	}
}
