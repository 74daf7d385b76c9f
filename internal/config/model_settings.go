package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
)

// ModelSettings are the settings for some models, in the place of those for all. The first entry of the list whose
// match has a model is that model's only one; what it leaves out is as for all models.
type ModelSettings struct {
	// Match are names of models as clients use them, aliases included; * in one stands for any text. An alias has
	// settings of its own. A request that names no model is for the only one that is served, if there is only one.
	Match fleet.Names `yaml:"match"`
	// Body is the largest request body, instead of limits.body; it may be larger.
	Body Bytes `yaml:"body"`
	// Retries is how many further endpoints are tried, instead of limits.retries. 0 is none.
	Retries *int `yaml:"retries"`
	// Timeouts bounds waits, instead of timeouts.
	Timeouts ModelTimeouts `yaml:"timeouts"`
	// Policy that chooses among the endpoints, of both legs where requests are split, instead of policy: a name, or a
	// mapping with name and options. Its options are its own; left out they are the policy's defaults.
	Policy *policy.Config `yaml:"policy"`
	// Split says which requests are split, instead of disaggregation.when and threshold.
	Split ModelSplit `yaml:"split"`
	// Queue off sends prompts to engines at once: they wait neither in the router's queue nor by admission, also not
	// for a tenant's limit running. How much an endpoint is sent in advance (queue.ahead) belongs to the endpoint, and
	// is the same for all models. Empty is as queue says, but off for a policy that does exactly what another router
	// does.
	Queue string `yaml:"queue"`
}

// ModelSplit says which requests for some models are split.
type ModelSplit struct {
	// When says which, as disaggregation.when. Empty means that.
	When string `yaml:"when"`
	// Threshold in tokens, for tokens and uncached.
	Threshold int `yaml:"threshold"`
}

// ModelTimeouts bounds waits for some models. What is left out is that of timeouts.
type ModelTimeouts struct {
	// FirstByte bounds the wait for the first data of a stream.
	FirstByte time.Duration `yaml:"first_byte"`
	// Answer bounds the wait for the first byte of an answer that is not streamed.
	Answer time.Duration `yaml:"answer"`
	// Idle bounds the silence of an engine within an answer.
	Idle time.Duration `yaml:"idle"`
	// Refusing bounds the silence within an answer while the endpoint refuses new connections.
	Refusing time.Duration `yaml:"refusing"`
	// Tunnel bounds how long both ends of an upgraded connection (WebSocket) may be silent at one time.
	Tunnel time.Duration `yaml:"tunnel"`
	// Comments is how long a client of an event stream hears nothing before its answer begins.
	Comments time.Duration `yaml:"comments"`
}

// Placing is the configuration by which requests for the models of an entry are placed.
func (c Config) Placing(entry int) Config {
	m := &c.Models.Settings[entry]
	if m.Policy != nil {
		c.Policy = m.Policy.WithDefaults()
		c.Disaggregation.PrefillPolicy, c.Disaggregation.DecodePolicy, c.Disaggregation.DecodeTRTLLM = "", "", nil
	}
	if m.Split != (ModelSplit{}) {
		c.Disaggregation.When, c.Disaggregation.Threshold = cmp.Or(m.Split.When, c.Disaggregation.When),
			m.Split.Threshold
	}
	return c
}

// SentAtOnce reports whether prompts for the models of an entry do not wait at the router.
func (c Config) SentAtOnce(entry int) bool {
	m := &c.Models.Settings[entry]
	return m.Queue == QueueOff ||
		m.Policy != nil && c.Queue.Mode == QueueAuto && policy.Queue(m.Policy.WithDefaults()) == (route.QueueConfig{})
}

// checkPlacing reports what is wrong with how requests for the models of an entry are placed.
func (c Config) checkPlacing(m *ModelSettings, at string) (faults []error) {
	if m.Queue != "" {
		faults = append(faults, oneOf(at+".queue", m.Queue, QueueOff)...)
	}
	if c.Disaggregation.Preset != "" && (m.Policy != nil || m.Split != (ModelSplit{})) {
		faults = append(faults, fault(at,
			"has a policy or a rule for splitting, which disaggregation.preset sets for all models; give one of both"))
	}
	if p := m.Policy; p != nil {
		faults = append(faults, section(at+".policy", reflect.TypeOf(*p), p.Validate())...)
		kv, conv := &p.TRTLLM.KVCacheAware, &p.TRTLLM.Conversation
		if kv.TokenizerDir+kv.ModelPath+conv.TokenizerDir+conv.ModelPath != "" {
			faults = append(faults,
				fault(at+".policy", "has a tokenizer; one serves all engines: give it in kv_events.tokenizer"))
		}
	}
	if s := m.Split; s != (ModelSplit{}) {
		d := Disaggregation{When: cmp.Or(s.When, c.Disaggregation.When), Threshold: s.Threshold}
		for _, e := range d.checkWhen() {
			if f, ok := errors.AsType[*discovery.FieldError](e); ok {
				e = fault(at+".split."+strings.TrimPrefix(f.Field, "disaggregation."), "%w", f.Err)
			}
			faults = append(faults, e)
		}
	}
	return faults
}

// Describe says what an entry sets, as "retries 0, timeouts.answer 1m0s".
func (m *ModelSettings) Describe() string {
	var out []string
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for _, f := range strictyaml.Fields(v.Type()) {
			at, of := strictyaml.Join(path, f.Name), v.FieldByIndex(f.Index)
			switch {
			case f.Name == "match" && path == "" || of.IsZero():
			case of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct:
				walk(at, of.Elem())
			case f.Name == "name" && path == "policy":
				out = append(out, fmt.Sprintf("policy %v", of))
			case of.Kind() == reflect.Struct:
				walk(at, of)
			default:
				out = append(out, fmt.Sprintf("%s %v", at, tree(of)))
			}
		}
	}
	walk("", reflect.ValueOf(m).Elem())
	return strings.Join(out, ", ")
}

// checkModelSettings reports entries that can mean nothing, and values out of range.
func (c Config) checkModelSettings() (faults []error) {
	for i := range c.Models.Settings {
		m, at := &c.Models.Settings[i], "models.settings["+strconv.Itoa(i)+"]"
		if len(m.Match) == 0 {
			faults = append(faults, fault(at+".match", "must name a model, or a pattern such as \"embed-*\""))
		}
		faults = append(append(faults, checkNames(at+".match", m.Match)...), c.checkPlacing(m, at)...)
		if m.Body < 0 {
			faults = append(faults, fault(at+".body", "is %v, must be above 0", m.Body))
		}
		if memory := c.Limits.Memory; memory != 0 && memory/2 < m.Body {
			faults = append(faults, fault(at+".body", "is %v, must be at most half of limits.memory (%v)",
				m.Body, memory))
		}
		if r := m.Retries; r != nil && (*r < 0 || *r > 100) {
			faults = append(faults, fault(at+".retries", "is %d, must be between 0 and 100", *r))
		}
		v := reflect.ValueOf(m.Timeouts)
		for _, f := range strictyaml.Fields(v.Type()) {
			if d := v.FieldByIndex(f.Index).Interface().(time.Duration); d < 0 {
				faults = append(faults, fault(at+".timeouts."+f.Name, "is %v, must be above 0", d))
			}
		}
		if d := m.Timeouts.Comments; d > 0 && d < leastComments {
			faults = append(faults, fault(at+".timeouts.comments", "is %v, must be 0 or at least %v", d, leastComments))
		}
	}
	return faults
}

// LargestBody is the largest request body of any model.
func (c Config) LargestBody() Bytes {
	most := c.Limits.Body
	for i := range c.Models.Settings {
		most = max(most, c.Models.Settings[i].Body)
	}
	return most
}

// settingWarnings lists entries that no request can reach, and patterns that no model matches where all endpoints state
// theirs in known.
func (c Config) settingWarnings(known []string) (out []string) {
	for i := range c.Models.Settings {
		if c.Models.Settings[i].Describe() == "" {
			out = append(out,
				fmt.Sprintf("models.settings[%d]: sets nothing, so that its models have the settings of all", i))
		}
		for j, pattern := range c.Models.Settings[i].Match {
			at := fmt.Sprintf("models.settings[%d].match[%d]", i, j)
			before := slices.IndexFunc(c.Models.Settings[:i], func(m ModelSettings) bool {
				return len(m.Match) > 0 && m.Match.Has(pattern)
			})
			switch {
			case before >= 0:
				out = append(out, fmt.Sprintf(
					"%s: %q is matched by models.settings[%d], which comes first, so that this has no effect",
					at, pattern, before))
			case known != nil && !slices.ContainsFunc(known, fleet.Names{pattern}.Has):
				out = append(out, fmt.Sprintf("%s: no endpoint serves a model, and no alias is, %q%s",
					at, pattern, strictyaml.DidYouMean(pattern, known)))
			}
		}
	}
	return out
}
