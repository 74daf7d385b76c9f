package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/forwarded"
	"github.com/warmpath/warmpath/policy"
)

func checkCommand(e env) *cobra.Command {
	var s settings
	var from *string
	asJSON := false
	cmd := &cobra.Command{
		Use:   "check [URL...|--from ROUTER FILE|--from ROUTER -- FLAGS]",
		Short: "Validate a configuration without starting",
		Long: `check reads the configuration as serve would and prints what would run, or every fault with its location. It opens
no port and asks no engine. Exit code 0: it is good; 2: it has faults.

With --from it reads another router's configuration instead, a file or a command line, writes the equivalent warmpath.yaml to
standard output, and lists on standard error what has no equivalent, with what to do about it.`,
		Example: `  # Is the file good?
  warmpath check -c warmpath.yaml

  # Together with flags and environment, as serve would see them
  WARMPATH_LISTEN=:80 warmpath check -c warmpath.yaml --policy least_tokens

  # For scripts: {"ok":false,"faults":["warmpath.yaml:3:1: ..."]}
  warmpath check -c warmpath.yaml --json

  # Come from another router
  warmpath check --from trtllm disagg.yaml
  warmpath check --from smg -- smg launch \
    --worker-urls http://10.0.0.1:8000 --policy cache_aware`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if *from != "" {
				if asJSON {
					return usageError(errors.New("--from writes a configuration and cannot be combined with --json"))
				}
				return checkFrom(cmd, e, *from, args)
			}
			s.urls = args
			cfg, err := s.load(e)
			if asJSON {
				return errors.Join(err, json.NewEncoder(e.stdout).Encode(checkedConfig(&cfg, s.source(e), err)))
			}
			if err != nil {
				return err
			}
			if note := s.unread(e); note != "" {
				fmt.Fprintln(e.stderr, "warmpath: "+note)
			}
			return describe(e.stdout, cfg, s.path(e), discovery.Keys{Lookup: e.lookup})
		},
	}
	s.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"print one JSON object: what would run, without secrets, or every fault")
	from = fromFlag(cmd)
	return cmd
}

// checked is the output of check --json.
type checked struct {
	OK       bool           `json:"ok"`
	File     string         `json:"file,omitempty"`
	Hash     string         `json:"hash,omitempty"` // as in GET /admin/stats
	Faults   []string       `json:"faults,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
	Settings map[string]any `json:"settings,omitempty"` // secrets hidden
}

// checkedConfig is a configuration, or the faults in it.
func checkedConfig(cfg *config.Config, file string, err error) checked {
	if err != nil {
		return checked{File: file, Faults: strings.Split(err.Error(), "\n")}
	}
	return checked{OK: true, File: file, Hash: cfg.Hash(), Warnings: cfg.Warnings(), Settings: cfg.Settings()}
}

// describe prints what would run.
func describe(w io.Writer, cfg config.Config, file string, keys discovery.Keys) error {
	endpoints, err := discovery.Endpoints(cfg.Endpoints, keys)
	if err != nil {
		return err
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	if file != "" {
		line("file", "%s", file)
	}
	scheme := "http"
	if cfg.TLS.Cert != "" {
		scheme = "https"
	}
	line("listen", "%s://%s", scheme, cfg.Listen)
	describeListeners(line, &cfg)
	describeKeys(line, &cfg)
	line("policy", "%s: %s", cfg.Policy.Name, policy.Describe(cfg.Policy.Name))
	if q, off := cfg.RouteQueue(); off == "" {
		line("queue", "on: prompts wait here, the shortest first, while an engine has %v of them to compute", q.Ahead)
	} else {
		line("queue", "off: %s", off)
	}
	if on, off := cfg.Admits(); on {
		line("admission", "on: turns are held while the sessions under way need more cache than there is")
	} else {
		line("admission", "off: %s", off)
	}
	for _, name := range cfg.Shadow.Policies {
		line("shadow", "%s: %s", name, policy.Describe(name))
	}
	describeEndpoints(line, &cfg, endpoints)
	describeDiscovery(line, &cfg)
	for _, name := range slices.Sorted(maps.Keys(cfg.Models.Aliases)) {
		line("alias", "%s = %s", name, strings.Join(cfg.Models.Aliases[name].Shown(), ", "))
	}
	for i := range cfg.Models.Settings {
		m := &cfg.Models.Settings[i]
		line("model", "%s: %s", strings.Join(m.Match, ", "), m.Describe())
	}
	if r := cfg.Record; r.File != "" {
		line("record", "%s, at most %d files of %s", r.File, r.Files+1, r.FileBytes)
	}
	for _, warning := range cfg.Warnings() {
		line("warning", "%s", warning)
	}
	line("ok", "no faults")
	return nil
}

// liner prints one line of what would run.
type liner func(name, format string, args ...any)

// describeEndpoints prints the endpoints of the configuration itself, and how requests are split over those with roles.
func describeEndpoints(line liner, cfg *config.Config, endpoints []fleet.Endpoint) {
	roles := false
	for _, e := range endpoints {
		roles = roles || e.Role != fleet.RoleBoth
		kind := string(e.Kind)
		if kind == "" {
			kind = "kind by probing"
		}
		models := "models by probing"
		if len(e.Models) > 0 {
			models = strings.Join(e.Models, "+")
		}
		role := ""
		if e.Role != fleet.RoleBoth {
			role = ", role " + e.Role.String()
		}
		line("endpoint", "%s %s, weight %v, %s, %s%s", e.Name, e.URL, e.Weight, kind, models, role)
	}
	if d, _ := cfg.Disaggregation.Effective(); roles || d.When == string(fleet.WhenFree) {
		connector := d.Connector
		if connector == "" {
			connector = "the connector of each kind"
		}
		line("split", "%s, by %s; prompts by %s, answers by %s",
			d.When, connector, cfg.PolicyNamed(d.PrefillPolicy).Name, cfg.DecodePolicyConfig().Name)
	}
}

// describeDiscovery prints where further endpoints are looked for.
func describeDiscovery(line liner, cfg *config.Config) {
	if cfg.Discovery.File != "" {
		line("discovery", "file %s", cfg.Discovery.File)
	}
	for _, d := range cfg.Discovery.DNS {
		d = d.WithDefaults()
		line("discovery", "dns %s, %s records, every %v", d.Name, d.Type, d.Interval)
	}
	for _, k := range cfg.Discovery.Kubernetes {
		line("discovery", "%s", k.Source())
	}
	for _, h := range cfg.Discovery.HTTP {
		line("discovery", "the list at %s", h.URL)
	}
	for _, s := range cfg.Discovery.Etcd {
		line("discovery", "etcd at %s, keys under %s", strings.Join(s.Endpoints, ", "), s.Prefix)
	}
}

// describeKeys prints how many API keys there are.
func describeKeys(line liner, cfg *config.Config) {
	keys, err := cfg.Tenants.Keys()
	if err != nil || len(keys) == 0 && cfg.Tenants.KeysFile == "" {
		return // faults have been told
	}
	tenants, confined, ended := map[string]bool{}, 0, 0
	for _, k := range keys {
		tenants[k.Tenant] = true
		if len(k.Models) > 0 {
			confined++
		}
		if !k.Ends.IsZero() && !time.Now().Before(k.Ends.Time) {
			ended++
		}
	}
	text := fmt.Sprintf("%d, tenants: %d", len(keys), len(tenants))
	if cfg.Tenants.KeysFile != "" {
		text += ", also from " + cfg.Tenants.KeysFile
	}
	if confined > 0 {
		text += fmt.Sprintf(", for some models only: %d", confined)
	}
	if ended > 0 {
		text += fmt.Sprintf(", ended: %d", ended)
	}
	if !cfg.Tenants.Required {
		text += "; clients without a key are served too (tenants.required: true refuses them)"
	}
	line("keys", "%s", text)
}

// describeListeners prints the trusted proxies, and the listeners besides that of clients.
func describeListeners(line liner, cfg *config.Config) {
	if len(cfg.TrustedProxies) > 0 {
		how := "by " + cmp.Or(cfg.ClientHeader, forwarded.DefaultHeader)
		if cfg.ProxyProtocol {
			how += " and the PROXY protocol; other connections are closed"
		}
		line("proxies", "%s, %s", strings.Join(cfg.TrustedProxies, ", "), how)
	}
	if cfg.Admin.Listen == "" {
		line("admin", "off")
	} else {
		scheme := "http"
		if cfg.Admin.TLS.Cert != "" {
			scheme = "https"
		}
		line("admin", "%s://%s", scheme, cfg.Admin.Listen)
	}
	if cfg.Peers.Listen != "" {
		line("peers", "reach this router at %s", cfg.Peers.Listen)
	}
	if cfg.ExtProc.On() {
		line("extproc", "%s: Envoy asks where to send requests", cfg.ExtProc.Listen)
	}
	if cfg.Lease.On() {
		line("lease", "%s: programs that send requests themselves ask where to", cfg.Lease.Listen)
	}
	if c := cfg.TRTLLM.Cluster; c.Listen != "" && c.Storage() {
		line("workers", "register at %s", c.Listen)
	}
}
