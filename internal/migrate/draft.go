package migrate

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
)

// The roles of endpoints in the configuration.
const (
	roleBoth    = ""
	rolePrefill = "prefill"
	roleDecode  = "decode"
)

// The keys under disaggregation.
const (
	splitWhen      = "disaggregation.when"
	splitThreshold = "disaggregation.threshold"
	splitConnector = "disaggregation.connector"
	splitPreset    = "disaggregation.preset"
)

// draft is the configuration as far as it has been written.
type draft struct {
	file      string
	endpoints []*endpoint
	pods      []pods
	settings  []setting
	missing   []missed
	aliases   [][2]string // a name and a model that may stand for it
	kind      string      // of all endpoints whose own is not known
	ranks     int         // of all endpoints
	ends      []func()    // what has to wait until everything was read
}

type endpoint struct {
	url, name, kind, role, apiKeyEnv string
	idForm                           string // how it is told conversations, "" for auto
	models                           []string
	ranks, bootstrap                 int // bootstrap is the port of a prefiller's bootstrap server, 0 for the usual one
	line                             int
}

type setting struct {
	path  string // keys with dots
	value any
}

type missed struct {
	Missing
	line int
}

// set states a setting, over what was stated before.
func (d *draft) set(path string, value any) {
	for i := range d.settings {
		if d.settings[i].path == path {
			d.settings[i].value = value
			return
		}
	}
	d.settings = append(d.settings, setting{path, value})
}

// unset takes a setting back.
func (d *draft) unset(path string) {
	d.settings = slices.DeleteFunc(d.settings, func(s setting) bool { return s.path == path })
}

// has is the value of a setting, nil when it is not stated.
func (d *draft) has(path string) any {
	for _, s := range d.settings {
		if s.path == path {
			return s.value
		}
	}
	return nil
}

// miss lists what has no equivalent.
func (d *draft) miss(line int, what, why string) {
	place := ""
	if d.file != "" && line > 0 {
		place = d.file + ":" + strconv.Itoa(line)
	}
	d.missing = append(d.missing, missed{Missing{place, what, why}, line})
}

// number sets a number that must be within bounds, or says why not.
func (d *draft) number(line int, what, text, path string, lo, hi float64) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f):
		d.miss(line, what+show(text), "not a number")
	case f < lo || f > hi:
		d.miss(line, what+show(text), fmt.Sprintf("%s takes %v to %v", path, lo, hi))
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		d.set(path, int64(f))
	default:
		d.set(path, f)
	}
}

// boolean sets a truth value.
func (d *draft) boolean(line int, what, text, path string) {
	v, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		d.miss(line, what+show(text), "neither true nor false")
		return
	}
	d.set(path, v)
}

// seconds sets a duration that the source gives in seconds.
func (d *draft) seconds(line int, what, text, path string) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0) || f > 1e8 {
		d.miss(line, what+show(text), "not a time above 0 in seconds")
		return
	}
	d.set(path, time.Duration(f*float64(time.Second)))
}

// add declares an endpoint; one that is declared already is the same.
func (d *draft) add(line int, e endpoint) *endpoint {
	if !strings.Contains(e.url, "://") {
		e.url = "http://" + e.url
	}
	e.url = strings.TrimSuffix(strings.TrimRight(e.url, "/"), "/v1")
	e.line = line
	for _, other := range d.endpoints {
		if other.url == e.url {
			if other.role != e.role {
				other.role = "" // it is in both pools, so it does both
			} else {
				d.miss(line, e.url, "declared twice; once is enough")
			}
			return other
		}
	}
	d.endpoints = append(d.endpoints, &e)
	return d.endpoints[len(d.endpoints)-1]
}

// listen sets the address of the traffic listener from a host and a port, either "" for its default.
func (d *draft) listen(host, port, defaultHost, defaultPort string) {
	d.set("listen", joinHostPort(cmp.Or(host, defaultHost), cmp.Or(port, defaultPort)))
}

func joinHostPort(host, port string) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// order is that of docs/config.md: what a reader looks for first comes first.
func order(path string) int {
	head, _, _ := strings.Cut(path, ".")
	at := slices.Index([]string{
		"listen", "admin", "tls", "endpoints", "discovery", "policy", "disaggregation", "trtllm",
		"sessions", "by_content", "identity", "endpoint_token", "tenants", "models", "limits", "timeouts", "probe",
		"health", "log", "tracing",
	}, head)
	if at < 0 {
		return math.MaxInt
	}
	if path == "policy.name" || path == splitWhen || path == splitPreset { // what the rest of its mapping is about
		return 2 * at
	}
	return 2*at + 1
}

// result writes the configuration.
func (d *draft) result() (Result, error) {
	for _, end := range d.ends {
		end()
	}
	d.checkRoles()
	if len(d.endpoints) > 0 {
		d.set("endpoints", d.declared())
	}
	if len(d.pods) > 0 {
		d.set("discovery.kubernetes", d.followed())
	}
	if len(d.aliases) > 0 {
		d.set("models.aliases", d.aliased())
	}
	slices.SortStableFunc(d.settings, func(a, b setting) int { return cmp.Compare(order(a.path), order(b.path)) })
	var root yaml.MapSlice
	for _, s := range d.settings {
		root = put(root, strings.Split(s.path, "."), s.value)
	}
	var text bytes.Buffer
	if len(root) > 0 {
		b, err := yaml.MarshalWithOptions(root, yaml.Indent(2), yaml.IndentSequence(true), yaml.CustomMarshaler(scalar))
		if err != nil {
			return Result{}, err
		}
		text.Write(bytes.TrimRight(b, "\n"))
		text.WriteByte('\n')
	}
	slices.SortStableFunc(d.missing, func(a, b missed) int { return cmp.Compare(a.line, b.line) })
	out := Result{YAML: text.Bytes()}
	for _, m := range d.missing {
		out.Missing = append(out.Missing, m.Missing)
	}
	return out, nil
}

// scalar writes a string. The library writes one with a control character as a block that it does not read again
// (goccy/go-yaml 1.19.2), so that is quoted here: YAML has all of Go's escapes.
func scalar(s string) ([]byte, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return []byte(strconv.Quote(s)), nil
	}
	return yaml.Marshal(s)
}

// put stores a value at its path, which makes the mappings on its way.
func put(in yaml.MapSlice, path []string, value any) yaml.MapSlice {
	if v, ok := value.(time.Duration); ok {
		value = v.String()
	}
	at := slices.IndexFunc(in, func(i yaml.MapItem) bool { return i.Key == path[0] })
	if at < 0 {
		in, at = append(in, yaml.MapItem{Key: path[0]}), len(in)
	}
	if len(path) == 1 {
		in[at].Value = value
		return in
	}
	inner, _ := in[at].Value.(yaml.MapSlice)
	in[at].Value = put(inner, path[1:], value)
	return in
}

// declared is the list of endpoints.
func (d *draft) declared() []yaml.MapSlice {
	var out []yaml.MapSlice
	for _, e := range d.endpoints {
		m := yaml.MapSlice{{Key: "url", Value: e.url}}
		e.kind, e.ranks = cmp.Or(e.kind, d.kind), max(e.ranks, d.ranks)
		add := func(key string, value any, is bool) {
			if is {
				m = append(m, yaml.MapItem{Key: key, Value: value})
			}
		}
		add("name", e.name, e.name != "")
		add("kind", e.kind, e.kind != "")
		add("role", e.role, e.role != "")
		add("models", e.models, len(e.models) > 0)
		add("ranks", e.ranks, e.ranks > 1)
		add("conversation_id", e.idForm, e.idForm != "")
		add("bootstrap_port", e.bootstrap, e.bootstrap != 0 && e.role != roleDecode)
		add("api_key_env", e.apiKeyEnv, e.apiKeyEnv != "")
		out = append(out, m)
	}
	return out
}

// aliased are the aliases, the models of each in the order in which they were named.
func (d *draft) aliased() yaml.MapSlice {
	var out yaml.MapSlice
	for _, a := range d.aliases {
		at := slices.IndexFunc(out, func(i yaml.MapItem) bool { return i.Key == a[0] })
		if at < 0 {
			out, at = append(out, yaml.MapItem{Key: a[0], Value: []string{}}), len(out)
		}
		out[at].Value = append(out[at].Value.([]string), a[1])
	}
	return out
}

// checkRoles drops what is said of splitting where it has no sense: no endpoint of one of the roles.
func (d *draft) checkRoles() {
	if len(d.endpoints) == 0 {
		return // they are declared elsewhere
	}
	prefill, decode, first := 0, 0, 0
	for _, e := range d.endpoints {
		switch e.role {
		case rolePrefill:
			prefill++
		case roleDecode:
			decode++
		default:
			prefill, decode = prefill+1, decode+1
			continue
		}
		if first == 0 {
			first = e.line
		}
	}
	apart := slices.ContainsFunc(d.endpoints, func(e *endpoint) bool { return e.role != roleBoth })
	if apart && prefill > 0 && decode > 0 {
		return
	}
	if apart {
		d.miss(first, "roles", "no endpoint prefills, or none decodes: every endpoint serves whole requests")
	}
	for _, e := range d.endpoints {
		e.role = roleBoth
	}
	d.settings = slices.DeleteFunc(d.settings, func(s setting) bool {
		return strings.HasPrefix(s.path, "disaggregation.")
	})
}

// leftovers lists settings that were not read.
func (d *draft) leftovers(n *node, path string) {
	for i, item := range n.items {
		at := item.key
		switch {
		case n.list:
			at = path + "[" + strconv.Itoa(i) + "]"
		case path != "":
			at = path + "." + item.key
		}
		switch {
		case item.used && item.scalar:
		case item.scalar || !item.touched():
			d.miss(item.line, at+show(item.text), "not known here")
		default:
			d.leftovers(item, at)
		}
	}
}
