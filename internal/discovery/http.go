package discovery

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// HTTPConfig declares a URL that lists engines in the format of Prometheus' HTTP service discovery: a JSON list of
// groups, each with targets (host:port) and labels. Source: Prometheus' documentation, "HTTP service discovery".
type HTTPConfig struct {
	// URL of the list: http:// or https://.
	URL string `yaml:"url"`
	// Interval between requests. 0 means 10s.
	Interval time.Duration `yaml:"interval"`
	// TokenFile is the name of a file with a token for Authorization: Bearer. It is read for each request.
	TokenFile string `yaml:"token_file"`
	// Scheme of the engines: http or https. Empty means http. The label __scheme__ overrides it.
	Scheme string `yaml:"scheme"`
	// Engine has the settings of each engine, as in a list of endpoints without url and name; in kv_events and
	// kv_replay, * is the engine's own host (tcp://*:5557). Labels of a group override them: warmpath_ and the name of
	// the setting.
	Engine EndpointConfig `yaml:"engine"`
}

// Validate reports every fault, each a *FieldError, joined into one error.
func (c HTTPConfig) Validate() error {
	var faults []error
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		faults = append(faults, fault("url", "%q must be an address with http:// or https://", c.URL))
	} else if u.User != nil {
		faults = append(faults, fault("url", "must not contain a password; use token_file"))
	}
	if c.Interval != 0 && c.Interval < time.Second {
		faults = append(faults, fault("interval", "is %v, must be 1s or more", c.Interval))
	}
	if !slices.Contains([]string{"", "http", "https"}, c.Scheme) {
		faults = append(faults, fault("scheme", "is %q, must be http or https", c.Scheme))
	}
	return errors.Join(append(faults, c.Engine.checkTemplate()...)...)
}

// labelPrefix is the prefix of warmpath's labels.
const labelPrefix = "warmpath_"

// HTTP fetches a list periodically and publishes it as source "http:URL".
type HTTP struct {
	c      HTTPConfig
	client *http.Client
	keys   Keys
	log    *slog.Logger

	seen []byte // the last list, valid or not: each is decoded once
	bad  bool   // it has faults
	last []fleet.Endpoint
	sent bool            // published at least once
	said string          // the last fault, logged once
	left map[string]bool // faults of parts of the last list, logged once
}

// NewHTTP makes a source. It fails for faults of the configuration and for missing keys. Run makes the first request.
func NewHTTP(c HTTPConfig, client *http.Client, keys Keys, log *slog.Logger) (*HTTP, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var err error
	if c.Engine, err = c.Engine.WithKey(keys); err != nil {
		return nil, err
	}
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	return &HTTP{c: c, client: client, keys: keys, log: log}, nil
}

// Source is the name of the source.
func (h *HTTP) Source() string { return "http:" + h.c.URL }

// Same implements Runner.
func (h *HTTP) Same(before Runner) bool {
	o, ok := before.(*HTTP)
	return ok && reflect.DeepEqual(h.c, o.c) && h.client.Transport == o.client.Transport
}

// Run fetches the list at once and then at each interval, until ctx ends.
func (h *HTTP) Run(ctx context.Context, publish Publish) {
	tick := time.NewTicker(h.c.Interval)
	defer tick.Stop()
	for {
		h.look(ctx, publish)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look fetches the list once. A failure or a list with faults is logged once and changes nothing.
func (h *HTTP) look(ctx context.Context, publish Publish) {
	asked, cancel := context.WithTimeout(ctx, min(h.c.Interval, 10*time.Second))
	list, err := h.ask(asked)
	cancel()
	if ctx.Err() != nil {
		return
	}
	var found []fleet.Endpoint
	if err == nil {
		if h.seen != nil && bytes.Equal(list, h.seen) {
			if !h.bad {
				h.well()
			}
			return
		}
		var left []error
		found, left, err = h.c.endpoints(list)
		h.seen, h.bad = list, err != nil
		h.sayLeft(left)
	}
	if err != nil {
		if h.said != err.Error() {
			h.log.Warn("the list of endpoints cannot be read or has faults; keeping the last valid one",
				"source", h.Source(), "kept", len(h.last), "error", err)
		}
		h.said = err.Error()
		return
	}
	h.well()
	if h.sent && Equal(found, h.last) {
		return
	}
	h.log.Info("endpoints changed", "source", h.Source(), "endpoints", len(found))
	h.last, h.sent = found, true
	publish(route.Declared{Source: h.Source(), Endpoints: slices.Clone(found)})
}

// well notes that the list is valid.
func (h *HTTP) well() {
	if h.said != "" {
		h.log.Info("the list of endpoints can be read again", "source", h.Source())
	}
	h.said = ""
}

func (h *HTTP) ask(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.c.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Prometheus-Refresh-Interval-Seconds", fmt.Sprint(int(h.c.Interval.Seconds())))
	if h.c.TokenFile != "" {
		token, err := h.keys.of(EndpointConfig{APIKeyFile: h.c.TokenFile})
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s, not 200", resp.Status)
	}
	list, err := io.ReadAll(io.LimitReader(resp.Body, fileBytes+1))
	if err == nil && len(list) > fileBytes {
		err = fmt.Errorf("the list is larger than %d MiB", fileBytes>>20)
	}
	return list, err
}

// Bounds of a list of MaxEndpoints endpoints, each in a group of its own with dozens of labels.
const (
	mostGroups = 4 * MaxEndpoints   // braces
	mostQuotes = 128 * MaxEndpoints // two for each text
)

// endpoints decodes a list. left are the faults of groups and targets that are left out: one of them must not keep the
// others from coming and going. It is an error if all are.
func (c HTTPConfig) endpoints(list []byte) (found []fleet.Endpoint, left []error, err error) {
	// "{}," and "\"\"," take many times their own bytes once they are decoded
	if bytes.Count(list, []byte{'{'}) > mostGroups || bytes.Count(list, []byte{'"'}) > mostQuotes {
		return nil, nil, fmt.Errorf("more than %d endpoints, or too many groups and labels", MaxEndpoints)
	}
	var groups []struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	list = bytes.TrimPrefix(list, []byte("\ufeff")) // the byte order mark of editors on Windows
	if err := json.Unmarshal(list, &groups); err != nil {
		return nil, nil, fmt.Errorf("not the JSON of Prometheus' HTTP service discovery, a list of "+
			"{\"targets\": [...], \"labels\": {...}}: %w", err)
	}
	if groups == nil {
		return nil, nil, errors.New("the list is null; an empty one is []")
	}
	all := 0
	for _, g := range groups {
		if all += len(g.Targets); all > MaxEndpoints {
			return nil, nil, fmt.Errorf("more than %d endpoints", MaxEndpoints)
		}
	}
	var configs []EndpointConfig
	listed := map[string]EndpointConfig{} // by name and by address
	for i, g := range groups {
		e, err := c.labelled(g.Labels)
		if err != nil {
			left = append(left, fmt.Errorf("group %d: %w", i+1, err))
			continue
		}
		for _, target := range g.Targets {
			one := e.At(cmp.Or(g.Labels["__scheme__"], c.Scheme), target)
			name, at := one.Place()
			same, twice := listed[name]
			if !twice {
				same, twice = listed[at]
			}
			switch err := one.Validate(); {
			case err != nil:
				left = append(left, fmt.Errorf("%q: %w", target, err))
			case !twice:
				listed[name], listed[at] = one, one
				configs = append(configs, one)
			case !reflect.DeepEqual(same, one): // equal targets are one, as for Prometheus
				left = append(left, fmt.Errorf("%q: is the same as %s, with other settings", target, same.Name))
			}
		}
	}
	if len(configs) == 0 && len(left) > 0 {
		return nil, nil, left[0]
	}
	found, err = Endpoints(configs, None())
	return found, left, err
}

// labelled are the settings of each engine with those of a group's labels.
func (c HTTPConfig) labelled(labels map[string]string) (EndpointConfig, error) {
	e := c.Engine
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if name, ours := strings.CutPrefix(key, labelPrefix); ours {
			if err := e.SetTrait(name, labels[key]); err != nil {
				return e, fmt.Errorf("the label %s: %w", key, err)
			}
		}
	}
	return e, nil
}

// mostLeft bounds the faults of one list that are logged.
const mostLeft = 16

// sayLeft logs what is left out, each fault once for as long as it lasts.
func (h *HTTP) sayLeft(left []error) {
	said := map[string]bool{}
	for _, err := range left[:min(len(left), mostLeft)] {
		text := strings.ReplaceAll(err.Error(), "\n", "; ")
		if said[text] = true; !h.left[text] {
			h.log.Warn("a part of the list is left out", "source", h.Source(), "error", text, "in_all", len(left))
		}
	}
	h.left = said
}
