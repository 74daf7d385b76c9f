// Package autoscaling checks the examples by the types and parsers of the programs that read them, in a module of its
// own: nothing of KEDA, Kubernetes or Prometheus is a dependency of the router for it.
package autoscaling

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/prometheus/prometheus/promql/parser"
	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

// read decodes a file strictly: unknown fields are errors.
func read(t *testing.T, file string, to any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, to); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// knownMetrics checks that a query is PromQL and asks for metrics of the router only.
func knownMetrics(t *testing.T, query string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	reference, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			n++
			if !strings.Contains(string(reference), "`"+s.Name+"`") {
				t.Errorf("%s: the router has no %s", query, s.Name)
			}
		}
		return nil
	})
	if n == 0 {
		t.Errorf("%s asks for nothing", query)
	}
}

func TestKEDA(t *testing.T) {
	var o keda.ScaledObject
	read(t, "keda.yaml", &o)
	if err := keda.CheckReplicaCountBoundsAreValid(&o); err != nil {
		t.Error(err)
	}
	if err := keda.ValidateTriggers(o.Spec.Triggers); err != nil || len(o.Spec.Triggers) == 0 {
		t.Errorf("%d triggers: %v", len(o.Spec.Triggers), err)
	}
	for _, trigger := range o.Spec.Triggers {
		if trigger.Type != "prometheus" || trigger.MetricType != autoscaling.ValueMetricType {
			t.Errorf("trigger %s of type %s", trigger.Type, trigger.MetricType)
		}
		for key, value := range trigger.Metadata {
			switch key {
			case "serverAddress":
			case "query":
				knownMetrics(t, value)
			case "threshold":
				if x, err := strconv.ParseFloat(value, 64); err != nil || !(x > 0 && x < 1) {
					t.Errorf("threshold %q", value)
				}
			default: // the parameters that KEDA's scaler requires are those above
				t.Errorf("parameter %s", key)
			}
		}
		if len(trigger.Metadata) != 3 {
			t.Errorf("trigger %v", trigger.Metadata)
		}
	}
}

func TestHPA(t *testing.T) {
	var h autoscaling.HorizontalPodAutoscaler
	read(t, "hpa.yaml", &h)
	if h.Spec.MaxReplicas < *h.Spec.MinReplicas || len(h.Spec.Metrics) == 0 {
		t.Errorf("%+v", h.Spec)
	}
	var adapter struct {
		Rules struct {
			External []struct {
				SeriesQuery  string `json:"seriesQuery"`
				MetricsQuery string `json:"metricsQuery"`
				Resources    struct {
					Namespaced *bool `json:"namespaced"`
				} `json:"resources"`
			} `json:"external"`
		} `json:"rules"`
	}
	read(t, "adapter.yaml", &adapter)
	rule := adapter.Rules.External[0]
	series, err := parser.NewParser(parser.Options{}).ParseExpr(rule.SeriesQuery)
	if err != nil {
		t.Fatal(err)
	}
	var names *regexp.Regexp
	for _, m := range series.(*parser.VectorSelector).LabelMatchers {
		if m.Name == "__name__" {
			names = regexp.MustCompile("^(?:" + m.Value + ")$")
		}
	}
	for _, metric := range h.Spec.Metrics {
		e := metric.External
		if e == nil || e.Target.Type != autoscaling.ValueMetricType || e.Target.Value.Sign() <= 0 {
			t.Fatalf("%+v", metric)
		}
		if !names.MatchString(e.Metric.Name) {
			t.Errorf("the adapter serves no %s", e.Metric.Name)
		}
		var matchers []string
		for label, value := range e.Metric.Selector.MatchLabels {
			matchers = append(matchers, label+"="+strconv.Quote(value))
		}
		query := strings.NewReplacer("<<.Series>>", e.Metric.Name, "<<.LabelMatchers>>", strings.Join(matchers, ",")).
			Replace(rule.MetricsQuery)
		knownMetrics(t, query)
	}
}
