package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/warmpath/warmpath/internal/config"
)

// TestCompose: the files of deploy/compose fit each other and the router: its configuration is taken, services and
// ports that files name exist, and the dashboard asks for metrics that there are.
func TestCompose(t *testing.T) {
	dir := filepath.Join("..", "..", "deploy", "compose")
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	parse := func(name string) any {
		t.Helper()
		var v any
		if err := yaml.Unmarshal(read(name), &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	cfg, err := config.Parse("warmpath.yaml", read("warmpath.yaml"),
		[]string{"WARMPATH_ADMIN_TOKEN=t", "WARMPATH_PEERS_SECRET=" + strings.Repeat("5a", 32)})
	if err != nil {
		t.Fatal(err)
	}
	services, _ := at(parse("compose.yaml"), "services").(map[string]any)
	if len(services) != 7 {
		t.Errorf("%d services, want two engines, two routers, Redis, Prometheus and Grafana", len(services))
	}
	known := func(address, file string) {
		t.Helper()
		u, err := url.Parse(address)
		if err != nil || services[u.Hostname()] == nil {
			t.Errorf("%s: there is no service for %s", file, address)
		}
	}
	for i := range cfg.Endpoints {
		known(cfg.Endpoints[i].URL, "warmpath.yaml")
	}
	known(cfg.Peers.RedisURL(), "warmpath.yaml")
	for i := range 2 {
		for _, target := range at(parse("prometheus.yaml"), "scrape_configs", i,
			"static_configs", 0, "targets").([]any) {
			known("http://"+target.(string), "prometheus.yaml")
		}
	}
	known(at(parse("grafana/provisioning/datasources/prometheus.yaml"), "datasources", 0, "url").(string),
		"datasources")
	for name, service := range services {
		for _, mount := range listOf(at(service, "volumes")) {
			from, _, _ := strings.Cut(mount.(string), ":")
			if _, err := os.Stat(filepath.Join(dir, from)); strings.HasPrefix(from, "./") && err != nil {
				t.Errorf("%s mounts %s: %v", name, from, err)
			}
		}
		for _, port := range listOf(at(service, "ports")) {
			if !strings.HasPrefix(port.(string), "127.0.0.1:") {
				t.Errorf("%s is open to other machines: %s", name, port)
			}
		}
	}
	if !strings.HasSuffix(cfg.Listen, ":8080") || !strings.HasSuffix(cfg.Admin.Listen, ":9190") {
		t.Errorf("the routers listen at %s and %s", cfg.Listen, cfg.Admin.Listen)
	}

	var board struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read("grafana/dashboards/warmpath.json"), &board); err != nil {
		t.Fatal(err)
	}
	reference, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	ask := func(who, expression string) {
		for _, word := range strings.FieldsFunc(expression, func(r rune) bool {
			return r != '_' && (r < 'a' || r > 'z')
		}) {
			if !strings.HasPrefix(word, "warmpath_") {
				continue
			}
			asked++
			for _, series := range []string{"_bucket", "_sum", "_count"} {
				word = strings.TrimSuffix(word, series)
			}
			if !strings.Contains(string(reference), "| `"+word+"` |") {
				t.Errorf("%s asks for %s, which is no metric", who, word)
			}
		}
	}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			ask("the dashboard", q.Expr)
		}
	}
	if asked == 0 {
		t.Error("the dashboard asks for nothing")
	}
	rules := listOf(at(parse("alerts.yaml"), "groups", 0, "rules"))
	if len(rules) == 0 {
		t.Error("there are no alert rules")
	}
	for _, rule := range rules {
		ask(at(rule, "alert").(string), at(rule, "expr").(string))
	}
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return l
}
