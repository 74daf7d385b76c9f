package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// Hash identifies the configuration: the same 12 digits for the same settings, on every machine. Secrets count only as
// given or not: the hash is a label of a metric, and whoever knows the rest of the file could try out weak ones.
func (c Config) Hash() string {
	b, err := json.Marshal(c.Settings())
	if err != nil {
		return "" // nothing in it can fail to be encoded
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// mostChanged bounds the paths that Changed lists.
const mostChanged = 20

// Changed lists the settings in which two configurations differ, as paths with commas between, never their values, and
// the files that they name of which the content differs. "nothing" is for equal ones.
func Changed(before, now *Config, files []string) string {
	var paths []string
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		x, isMap := a.(map[string]any)
		y, both := b.(map[string]any)
		if !isMap || !both {
			if !reflect.DeepEqual(a, b) {
				paths = append(paths, path)
			}
			return
		}
		for key := range x {
			walk(strictyaml.Join(path, key), x[key], y[key])
		}
		for key := range y {
			if _, known := x[key]; !known {
				walk(strictyaml.Join(path, key), nil, y[key])
			}
		}
	}
	walk("", tree(reflect.ValueOf(*before)), tree(reflect.ValueOf(*now)))
	slices.Sort(paths)
	paths = append(paths, files...)
	if more := len(paths) - mostChanged; more > 0 {
		paths = append(paths[:mostChanged], fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(paths, ", "), "nothing")
}

// Files are the files named in the configuration that are read with it.
func (c Config) Files() []string {
	all := []string{
		c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA, c.Admin.TLS.Cert, c.Admin.TLS.Key, c.Admin.TLS.ClientCA,
		c.Admin.TokenFile, c.Admin.ReadTokenFile, c.Lease.TokenFile, c.EndpointToken.KeyFile, c.Tenants.SaltKeyFile,
		c.Tenants.KeysFile, c.Record.SaltFile,
	}
	all = append(append(all, c.EngineTLS.Files()...), c.OTLP.Files()...)
	for i := range c.Endpoints {
		all = append(all, c.Endpoints[i].APIKeyFile)
	}
	for i := range c.Discovery.DNS {
		all = append(all, c.Discovery.DNS[i].APIKeyFile)
	}
	for i := range c.Discovery.Kubernetes {
		all = append(all, c.Discovery.Kubernetes[i].Kubeconfig)
	}
	for i := range c.Discovery.Etcd {
		all = append(all, c.Discovery.Etcd[i].PasswordFile)
	}
	for _, engine := range c.Discovery.templates() {
		all = append(all, engine.APIKeyFile)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// Over is the configuration that can replace a running one without a restart: settings of open listeners keep their
// running values. restart names these settings.
func (c Config) Over(running *Config) (out Config, restart []string) {
	keep := func(path string, now, next any) {
		n, r := reflect.ValueOf(next).Elem(), reflect.ValueOf(now).Elem()
		if !reflect.DeepEqual(n.Interface(), r.Interface()) {
			n.Set(r)
			restart = append(restart, path)
		}
	}
	keep("listen", &running.Listen, &c.Listen)
	keep("proxy_protocol", &running.ProxyProtocol, &c.ProxyProtocol)
	keep("admin.listen", &running.Admin.Listen, &c.Admin.Listen)
	keep("transport", &running.Transport, &c.Transport)
	if (c.TLS.Cert == "") != (running.TLS.Cert == "") {
		keep("tls", &running.TLS, &c.TLS)
	}
	if (c.Admin.TLS.Cert == "") != (running.Admin.TLS.Cert == "") {
		keep("admin.tls", &running.Admin.TLS, &c.Admin.TLS)
	}
	keep("state", &running.State, &c.State)
	keep("limits.header", &running.Limits.Header, &c.Limits.Header)
	keep("timeouts.read_header", &running.Timeouts.ReadHeader, &c.Timeouts.ReadHeader)
	keep("timeouts.keep_alive", &running.Timeouts.KeepAlive, &c.Timeouts.KeepAlive)
	keep("peers", &running.Peers, &c.Peers)
	keep("extproc", &running.ExtProc, &c.ExtProc)
	keep("lease", &running.Lease, &c.Lease)
	keep("trtllm", &running.TRTLLM, &c.TRTLLM)
	if c.TRTLLM.Paths || c.TRTLLM.Cluster.URI != "" { // they have a listener's names and token too
		keep("hosts", &running.Hosts, &c.Hosts)
		keep("admin.token", &running.Admin.Token, &c.Admin.Token)
	}
	if c.KVEvents.Listen != "" || running.KVEvents.Listen != "" {
		keep("kv_events", &running.KVEvents, &c.KVEvents)
	}
	if c.Disaggregation.lmcache() || running.Disaggregation.lmcache() {
		keep("disaggregation", &running.Disaggregation, &c.Disaggregation)
	}
	return c, restart
}

// lmcache reports whether prefillers notify the router, at a port of its own.
func (d Disaggregation) lmcache() bool {
	e, _ := d.Effective()
	return e.Connector == "lmcache"
}
