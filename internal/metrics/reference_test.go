package metrics

import (
	"fmt"
	"strings"
)

// Reference is docs/metrics.md: every family of ours with its type, labels and meaning.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

The admin listener serves these at ` + "`/metrics`" + `, in Prometheus' text format, OpenMetrics or protobuf, as the scraper prefers. Histograms
have classic buckets and, over protobuf, native ones. The collectors of the Go runtime (` + "`go_...`" + `) and of the process
(` + "`process_...`" + `) are there too. This page is generated: ` + "`go test ./internal/metrics -run TestReference -update`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`)
	for _, f := range families() {
		labels := "-"
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		_, _ = fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Kind, labels, f.Help)
	}
	writePeers(&b)
	b.WriteString(`
## Labels

- ` + "`endpoint`" + ` is the endpoint's name, or ` + "`none`" + ` for a request that reached no endpoint. The series of an endpoint that is no longer declared
  can be scraped once more and are then deleted.
- ` + "`pool`" + ` is the model or alias that the pool is known by, ` + "`none`" + ` for a request without one. There are at most 200 pools at a time; further
  ones are added up as ` + "`other`" + `. A model that no endpoint serves is never a label.
- Each pool has about 90 series at each endpoint that has answered for it, most of them buckets (` + "`" + `curl -s http://127.0.0.1:9190/metrics | grep -c
  'endpoint="ENDPOINT",pool="MODEL"'` + "`" + `). For hundreds of adapters at many engines let Prometheus drop the histograms that you do not look at: ` + "`" + `action: drop` + "`" + `
  under ` + "`" + `metric_relabel_configs` + "`" + `, with ` + "`" + `warmpath_itl_seconds_bucket` + "`" + ` for example.
- ` + "`api`" + ` is the kind of path that the client called; ` + "`code`" + ` the HTTP status sent to it, or its class (` + "`2xx`" + `, ` + "`4xx`" + `) for a rare one. 499 is a client
  that left before an answer.
- ` + "`outcome`" + ` is ` + "`ok`, `client_gone`, `client_error`, `busy`, `engine_error`, `connect_failed`, `timed_out`, `abandoned` or `transfer_failed`" + `.
- ` + "`state`" + ` is ` + "`unknown`, `up`, `down`, `ejected` or `busy`" + `.
- ` + "`reason`" + ` is the word that the policy gives for its choice; the log has the same.

## Questions they answer

Share of prompt tokens that came out of engines' caches:

    sum(rate(warmpath_cached_tokens_total[5m])) / sum(rate(warmpath_prompt_tokens_total[5m]))

Time to first token, 90th percentile by pool:

    histogram_quantile(0.9, sum by (pool, le) (rate(warmpath_ttft_seconds_bucket[5m])))

How far the router's prediction of cached tokens is off, by endpoint (1 is exact; engines that restarted or evict early are above):

    sum by (endpoint) (rate(warmpath_predicted_cached_tokens_total[5m])) / sum by (endpoint) (rate(warmpath_cached_tokens_total[5m]))

Mean error of the predicted cached tokens as a share of the prompt, and of the predicted time to first token in seconds:

    sum(rate(warmpath_cached_tokens_prediction_error_ratio_sum[5m])) / sum(rate(warmpath_cached_tokens_prediction_error_ratio_count[5m]))
    sum by (direction) (rate(warmpath_ttft_prediction_error_seconds_sum[5m])) / sum by (direction) (rate(warmpath_ttft_prediction_error_seconds_count[5m]))

Mean time that a request lost by not going where it would have been answered soonest:

    sum by (pool) (rate(warmpath_regret_seconds_sum[5m])) / sum by (pool) (rate(warmpath_regret_seconds_count[5m]))

Engines that lost their cache within the hour, by a restart or in their sleep:

    increase(warmpath_cache_losses_total[1h]) > 0

Endpoints that should take traffic and cannot:

    warmpath_endpoint_state{state="up"} == 0 and on (endpoint) warmpath_endpoint_weight > 0
`)
	return b.String()
}

// writePeers lists what is there under other routers' names, and what is not.
func writePeers(b *strings.Builder) {
	b.WriteString(`
## Under other routers' names

` + "`metrics.compatible`" + ` adds these, so that dashboards for these routers keep working. Each is computed from ours at the scrape. ` + "`server` and `worker`" + ` are the
endpoint's URL; endpoints with the same URL are added up, and a health of 1 means that one of them is up. Buckets are those of the original.
`)
	for _, p := range peers() {
		_, _ = fmt.Fprintf(b, "\n### %s\n\n| metric | type | labels | from |\n|---|---|---|---|\n", p.name)
		for _, f := range p.families {
			labels := "-"
			if len(f.Labels) > 0 {
				labels = "`" + strings.Join(f.Labels, "`, `") + "`"
			}
			_, _ = fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, f.Kind, labels, f.Help)
		}
		b.WriteString("\nLeft out:\n\n")
		for _, l := range p.without {
			_, _ = fmt.Fprintf(b, "- %s: %s.\n", l.names, l.why)
		}
	}
}
