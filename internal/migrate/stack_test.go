package migrate_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/migrate"
)

// TestStackConditionalIsAccepted: what is made of the flags of production-stack PR 890 passes the check that reads a
// configuration, files and registry included, and means the same.
func TestStackConditionalIsAccepted(t *testing.T) {
	const fleet = "--static-backends http://10.0.0.1:1,http://10.0.0.2:1 --static-model-labels p,d " +
		"--prefill-model-labels p --decode-model-labels d --routing-logic disaggregated_prefill "
	for _, c := range []struct {
		flags, when, connector string
		threshold              int
		fault                  string
	}{
		{flags: "--routing-threshold 4096", when: "tokens", connector: "nixl", threshold: 4096},
		{flags: "--routing-threshold 0", when: "always", connector: "nixl"},
		{flags: "--load-balancing-strategy least_loaded", when: "always", connector: "nixl"},
		{flags: `--routing-threshold 10 --disagg-connector-type lmcache --decoder-registry {"http://10.0.0.2:1":{"host":"10.0.0.2","init_port":[8300],"alloc_port":[8400]}}`, when: "tokens", connector: "lmcache", threshold: 10},
		{
			flags: `--disagg-connector-type lmcache --decoder-registry {"http://10.0.0.9:1":{"init_port":1,` +
				`"alloc_port":2}}`, fault: `names "http://10.0.0.9:1", which is neither`,
		},
		{
			flags: `--disagg-connector-type lmcache --decoder-registry {"http://10.0.0.2:1":`,
			fault: "is not a JSON object of decoders",
		},
		{
			flags: `--disagg-connector-type lmcache --decoder-registry nowhere.json`,
			fault: "is neither a JSON object of decoders nor a file that can be read",
		},
	} {
		got, err := migrate.Flags("production-stack", strings.Fields(fleet+c.flags))
		if err != nil || len(got.Missing) != 0 {
			t.Fatalf("%s: %v, %v", c.flags, err, got.Missing)
		}
		cfg, err := config.Parse("(result)", got.YAML, nil)
		if err == nil {
			err = cfg.CheckFiles(discovery.None())
		}
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.flags, err, c.fault)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v in\n%s", c.flags, err, got.YAML)
		}
		e, theirs := cfg.Disaggregation.Effective()
		if e.When != c.when || e.Threshold != c.threshold || e.Connector != c.connector || !theirs {
			t.Errorf("%s: when %s, threshold %d, connector %s, PR 890's tokens %v",
				c.flags, e.When, e.Threshold, e.Connector, theirs)
		}
	}
}
