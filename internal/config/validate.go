package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/accesslog"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/internal/unixsocket"
)

// Validate reports every value that is out of range, each a *discovery.FieldError with its path, joined into one error.
func (c Config) Validate() error {
	faults := c.checkListeners()
	for _, e := range discovery.Check(c.Endpoints) {
		faults = append(faults, below("endpoints", e)...)
	}
	faults = append(faults, checkLoop(c.Listen, c.Endpoints)...)
	for i, d := range c.Discovery.DNS {
		faults = append(faults, below(fmt.Sprintf("discovery.dns[%d].", i), d.Validate())...)
	}
	for i, k := range c.Discovery.Kubernetes {
		faults = append(faults, below(fmt.Sprintf("discovery.kubernetes[%d].", i), k.Validate())...)
	}
	for i, h := range c.Discovery.HTTP {
		faults = append(faults, below(fmt.Sprintf("discovery.http[%d].", i), h.Validate())...)
	}
	for i, e := range c.Discovery.Etcd {
		faults = append(faults, below(fmt.Sprintf("discovery.etcd[%d].", i), e.Validate())...)
	}
	faults = append(faults, c.checkDialIn()...)
	faults = append(faults, c.checkNumbers()...)
	faults = append(faults, c.checkRoles()...)
	faults = append(faults, c.Disaggregation.check()...)
	if handover.InlineReceivers(c.Disaggregation.DecoderRegistry) {
		faults = append(faults, c.checkDecoders(discovery.None())...)
	}
	faults = append(faults, c.TRTLLM.check()...)
	faults = append(faults, c.Explain.check()...)
	faults = append(faults, c.CORS.check()...)
	faults = append(faults, c.checkRecord()...)
	faults = append(faults, c.checkState()...)
	faults = append(faults, c.Shadow.check()...)
	faults = append(faults, section("policy", reflect.TypeOf(c.Policy), c.Policy.Validate())...)
	faults = append(faults, section("sessions", reflect.TypeOf(c.Sessions), c.Sessions.Validate())...)
	faults = append(faults, section("identity", reflect.TypeOf(c.Identity), c.Identity.Validate())...)
	faults = append(faults, c.checkTenants()...)
	faults = append(faults, c.checkLimits()...)
	faults = append(faults, c.Peers.check()...)
	faults = append(faults, c.ExtProc.check()...)
	faults = append(faults, c.Lease.check()...)
	faults = append(faults, c.EndpointToken.check()...)
	faults = append(faults, section("probe", reflect.TypeOf(c.Probe), c.Probe.Validate())...)
	faults = append(faults, section("kv_events", reflect.TypeOf(c.KVEvents), c.KVEvents.Validate())...)
	faults = append(faults, c.checkTokenizers()...)
	for _, a := range c.AliasList() {
		if a.Name == "" || len(a.Models) == 0 || slices.Contains(a.Models, "") || slices.Contains(a.Models, "*") {
			faults = append(faults,
				fault("models.aliases."+a.Name, "needs a name and at least one model, none empty or \"*\""))
		} else if err := a.Validate(); err != nil {
			faults = append(faults, fault("models.aliases."+a.Name, "%w", err))
		}
	}
	faults = append(faults, c.checkModelSettings()...)
	faults = append(faults, c.checkPlaceholders()...)
	faults = append(faults, oneOf("transport", c.Transport, leanTransport, leanListener, netTransport)...)
	faults = append(faults, oneOf("admission", c.Admission, AdmissionAuto, AdmissionOn, AdmissionOff)...)
	faults = append(faults, oneOf("queue.mode", c.Queue.Mode, QueueAuto, QueueOn, QueueOff)...)
	faults = append(faults, oneOf("trust.details", c.Trust.Details, detailsToOperators, DetailsToAll)...)
	faults = append(faults, oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")...)
	for i, name := range c.Metrics.Compatible {
		path := fmt.Sprintf("metrics.compatible[%d]", i)
		faults = append(faults, oneOf(path, name, "vllm-router", "production-stack", "trtllm", "llmd")...)
	}
	for i, name := range c.AccessLog.Fields {
		path := fmt.Sprintf("access_log.fields[%d]", i)
		if known := accesslog.Fields(); !slices.Contains(known, name) {
			faults = append(faults, fault(path, "is %q, must be one of %s%s",
				name, strings.Join(known, ", "), strictyaml.DidYouMean(name, known)))
		} else if slices.Contains(c.AccessLog.Fields[:i], name) {
			faults = append(faults, fault(path, "%q is there already", name))
		}
	}
	faults = append(faults, oneOf("log.format", c.Log.Format, "text", "json")...)
	return errors.Join(faults...)
}

// oneOf is the fault of a value that is none of the valid ones.
func oneOf(path, got string, valid ...string) []error {
	if slices.Contains(valid, got) {
		return nil
	}
	return []error{fault(path, "is %q, must be one of %s", got, strings.Join(valid, ", "))}
}

// below adds a prefix to the paths of err's faults.
func below(path string, err error) []error {
	var out []error
	for _, e := range strictyaml.Flatten(err) {
		if fe := (*discovery.FieldError)(nil); errors.As(e, &fe) {
			out = append(out, &discovery.FieldError{Field: strings.TrimSuffix(path+fe.Field, "."), Err: fe.Err})
		} else {
			out = append(out, &discovery.FieldError{Field: strings.TrimSuffix(path, "."), Err: e})
		}
	}
	return out
}

// section adds paths to the faults of a package's Config. The packages write "package: key.key is ..., must be ...";
// the key gives the path.
func section(path string, t reflect.Type, err error) []error {
	var out []error
	for _, e := range strictyaml.Flatten(err) {
		text := e.Error()
		if _, rest, ok := strings.Cut(text, ": "); ok {
			text = rest
		}
		at := path
		if key, rest, ok := strings.Cut(text, " "); ok && hasField(t, strings.Split(key, ".")) {
			at, text = path+"."+key, rest
		}
		out = append(out, &discovery.FieldError{Field: at, Err: errors.New(text)})
	}
	return out
}

func hasField(t reflect.Type, keys []string) bool {
	for _, key := range keys {
		if t.Kind() != reflect.Struct {
			return false
		}
		fields := strictyaml.Fields(t)
		i := slices.IndexFunc(fields, func(f strictyaml.Field) bool { return f.Name == key })
		if i < 0 {
			return false
		}
		t = fields[i].Type
	}
	return true
}

// checkDialIn reports endpoints whose KV events need kv_events.listen when it is not set.
func (c Config) checkDialIn() (faults []error) {
	if c.KVEvents.Listen != "" {
		return nil
	}
	const need = "is listen, which needs kv_events.listen"
	for i := range c.Endpoints {
		if c.Endpoints[i].KVEvents == "listen" {
			faults = append(faults, fault(fmt.Sprintf("endpoints[%d].kv_events", i), need))
		}
	}
	for i := range c.Discovery.DNS {
		if c.Discovery.DNS[i].KVEvents == "listen" {
			faults = append(faults, fault(fmt.Sprintf("discovery.dns[%d].kv_events", i), need))
		}
	}
	for path, engine := range c.Discovery.templates() {
		if engine.KVEvents == "listen" {
			faults = append(faults, fault(path+".kv_events", need))
		}
	}
	return faults
}

func (c Config) checkListeners() []error {
	var faults []error
	if err := checkListen(c.Listen); err != nil {
		faults = append(faults, fault("listen", "%w", err))
	}
	if _, err := c.Names(); err != nil {
		faults = append(faults, err)
	}
	if _, err := guard.ParsePaths(c.Paths); err != nil {
		faults = append(faults, fault("paths", "%w", err))
	}
	faults = append(faults, c.checkProxies()...)
	if c.Admin.Listen != "" {
		if err := checkListen(c.Admin.Listen); err != nil {
			faults = append(faults, fault("admin.listen", "%w", err))
		} else if !local(c.Admin.Listen) && c.Admin.Token == "" && c.Admin.TokenFile == "" {
			faults = append(faults, fault("admin.listen", "%s is not a loopback address and needs a token: "+
				"set WARMPATH_ADMIN_TOKEN, or admin.token_file in the file", c.Admin.Listen))
		}
	}
	faults = append(faults, checkApart(c.listeners())...)
	faults = append(faults, c.Admin.checkTokens()...)
	faults = append(append(append(faults, c.TLS.check("tls")...), c.Admin.TLS.check("admin.tls")...),
		c.EngineTLS.check()...)
	faults = append(append(faults, c.OTLP.check()...), checkCollector("tracing.endpoint", c.Tracing.Endpoint)...)
	return faults
}

// checkListen is checkAddress for listeners that may be Unix sockets.
func checkListen(address string) error {
	if unixsocket.Is(address) {
		_, err := unixsocket.Parse(address)
		return err
	}
	return checkAddress(address)
}

// leastComments is the least interval of comments to clients.
const leastComments = time.Second

func (c Config) checkNumbers() []error {
	var faults []error
	for _, s := range []struct {
		path  string
		value any
	}{{"timeouts", c.Timeouts}, {"health", c.Health}} {
		v := reflect.ValueOf(s.value)
		for _, f := range strictyaml.Fields(v.Type()) {
			d, ok := v.FieldByIndex(f.Index).Interface().(time.Duration)
			if ok && d <= 0 && f.Name != "ramp" && f.Name != "silent" && f.Name != "comments" || d < 0 {
				faults = append(faults, fault(s.path+"."+f.Name, "is %v, must be above 0", d))
			}
		}
	}
	if d := c.Timeouts.Comments; d > 0 && d < leastComments {
		faults = append(faults, fault("timeouts.comments", "is %v, must be 0 or at least %v", d, leastComments))
	}
	atLeast := func(path string, got, least int64) {
		if got < least {
			faults = append(faults, fault(path, "is %d, must be %d or more", got, least))
		}
	}
	atLeast("limits.body", int64(c.Limits.Body), 1)
	if m := c.Limits.Memory; m != 0 && m/2 < c.Limits.Body {
		faults = append(faults, fault("limits.memory", "is %v, must be at least twice limits.body (%v)",
			m, c.Limits.Body))
	}
	atLeast("limits.header", int64(c.Limits.Header), 4096)
	atLeast("health.eject_after", int64(c.Health.EjectAfter), 1)
	if c.Queue.Ahead < 0 {
		faults = append(faults, fault("queue.ahead", "is %v, must not be negative", c.Queue.Ahead))
	}
	if p := c.Queue.Patience; !(p >= 0.1 && p <= 1000) {
		faults = append(faults, fault("queue.patience", "is %v, must be between 0.1 and 1000", p))
	}
	if c.Limits.Retries < 0 || c.Limits.Retries > 100 {
		faults = append(faults, fault("limits.retries", "is %d, must be between 0 and 100", c.Limits.Retries))
	}
	for _, s := range []struct {
		path        string
		value, most float64
	}{
		{"limits.retry_share", c.Limits.RetryShare, 100},
		{"health.eject_share", c.Health.EjectShare, 1},
		{"health.panic_share", c.Health.PanicShare, 1},
	} {
		if !(s.value >= 0 && s.value <= s.most) {
			faults = append(faults, fault(s.path, "is %v, must be between 0 and %v", s.value, s.most))
		}
	}
	atLeast("limits.retry_floor", int64(c.Limits.RetryFloor), 0)
	if c.Health.EjectMax < c.Health.EjectFor {
		faults = append(faults, fault("health.eject_max", "is %v, must not be less than eject_for (%v)",
			c.Health.EjectMax, c.Health.EjectFor))
	}
	if r := c.Tracing.SampleRatio; !(r >= 0 && r <= 1) {
		faults = append(faults, fault("tracing.sample_ratio", "is %v, must be between 0 and 1", r))
	}
	return faults
}

// CheckFiles reports every unusable file named in the configuration, and every API key that cannot be read.
func (c Config) CheckFiles(keys discovery.Keys) error {
	var faults []error
	for path, t := range map[string]TLS{"tls": c.TLS, "admin.tls": c.Admin.TLS} {
		if _, err := t.Load(path); err != nil {
			faults = append(faults, err)
		}
	}
	if _, _, err := c.EngineTLS.Load(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.OTLP.TLS(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.Lease.Secret(); err != nil {
		faults = append(faults, err)
	}
	all, err := c.AdminToken()
	if err != nil {
		faults = append(faults, err)
	}
	reads, err := c.AdminReadToken()
	if err != nil {
		faults = append(faults, err)
	} else if reads != "" && reads == all {
		faults = append(faults,
			fault("admin.read_token_file", "has the same token as token_file; it would change things too"))
	}
	if _, err := c.EndpointToken.Secret(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.Tenants.Salt(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.Tenants.Keys(); err != nil {
		faults = append(faults, strictyaml.Flatten(err)...)
	}
	if _, err := c.TRTLLM.Options(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.TRTLLM.Cluster.StorageToken(); err != nil {
		faults = append(faults, err)
	}
	if err := c.checkTokenizerFile(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, c.checkDecoders(keys)...)
	if _, err := c.Record.SaltBytes(); err != nil {
		faults = append(faults, err)
	}
	for path, name := range map[string]string{
		"record.file": c.Record.File, "explain.file": c.Explain.File, "access_log.file": c.AccessLog.File,
		"state.file": c.State.File,
	} {
		if err := checkOutput(path, name); err != nil {
			faults = append(faults, err)
		}
	}
	if _, err := discovery.Endpoints(c.Endpoints, keys); err != nil {
		faults = append(faults, below("endpoints", err)...)
	}
	if c.Discovery.File != "" {
		if _, err := discovery.NewFile(c.Discovery.File, keys, nil); err != nil {
			if path := (*fs.PathError)(nil); errors.As(err, &path) {
				err = fault("discovery.file", "%w", err)
			}
			faults = append(faults, strictyaml.Flatten(err)...)
		}
	}
	for i, d := range c.Discovery.DNS {
		if _, err := discovery.NewDNS(d, nil, keys, nil); err != nil {
			faults = append(faults, below(fmt.Sprintf("discovery.dns[%d].", i), err)...)
		}
	}
	for path, engine := range c.Discovery.templates() {
		if _, err := engine.WithKey(keys); err != nil {
			faults = append(faults, below(path+".", err)...)
		}
	}
	for i, e := range c.Discovery.Etcd {
		if _, err := e.Password(keys); err != nil {
			faults = append(faults, below(fmt.Sprintf("discovery.etcd[%d].", i), err)...)
		}
	}
	if len(faults) > 0 {
		return Faults(faults)
	}
	return nil
}

// checkTokens reports tokens that are given twice or in vain.
func (a *Admin) checkTokens() (faults []error) {
	faults = append(a.token().check(), a.readToken().check()...)
	switch reads := a.ReadToken != "" || a.ReadTokenFile != ""; {
	case reads && a.Token == "" && a.TokenFile == "":
		faults = append(faults, fault("admin.read_token",
			"needs token or token_file: without one everybody who reaches the listener may change what they like"))
	case a.ReadToken != "" && a.ReadToken == a.Token:
		faults = append(faults, fault("admin.read_token", "is the same as token; it would change things too"))
	}
	return faults
}

func (a *Admin) token() secret { return secret{"admin.token", a.Token, a.TokenFile, 1} }

func (a *Admin) readToken() secret {
	return secret{"admin.read_token", a.ReadToken, a.ReadTokenFile, 1}
}

// AdminToken is the token of the admin API, read from its file if it is there; "" if none is required.
func (c Config) AdminToken() (string, error) {
	return c.Admin.token().read()
}

// AdminReadToken is the token of the admin API that changes nothing, read from its file if it is there; "" for none.
func (c Config) AdminReadToken() (string, error) {
	return c.Admin.readToken().read()
}

// Warnings are settings that are valid but probably unintended.
func (c Config) Warnings() []string {
	var out []string
	if len(c.Endpoints) == 0 && !c.Discovery.follows() && c.TRTLLM.Cluster.URI == "" {
		out = append(out, "no endpoints: every request is answered 503 until the admin API adds some; "+
			"give --endpoint URL, or endpoints or discovery in the file")
	}
	if len(c.Endpoints) > 0 && !slices.ContainsFunc(c.Endpoints, func(e discovery.EndpointConfig) bool {
		return e.Weight == nil || *e.Weight > 0
	}) {
		out = append(out, "every endpoint has weight 0 and takes no traffic")
	}
	if !local(c.Listen) && !(c.Tenants.Required && c.Tenants.keys()) {
		out = append(out, "listen: "+c.Listen+" is not a loopback address, and clients need no key: any host that "+
			"reaches it can use the engines; set tenants.api_keys and tenants.required, or let only a gateway reach it")
	}
	if c.ExtProc.On() && !local(c.ExtProc.Listen) && !(c.ExtProc.TLS && c.TLS.ClientCA != "") {
		out = append(out, "extproc.listen: "+c.ExtProc.Listen+" is not a loopback address: any host that reaches it "+
			"is told the API keys of engines; let only the gateway reach it, or set extproc.tls and tls.client_ca")
	}
	out = append(out, c.nameWarnings()...)
	out = append(out, c.certificateWarnings(time.Now())...)
	return append(append(out, c.proxyWarnings()...), c.TRTLLM.Cluster.warnings()...)
}
