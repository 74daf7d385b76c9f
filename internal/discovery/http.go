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
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// HTTPConfig declares a web address that lists engines in the format of Prometheus' HTTP service discovery: a JSON list of groups, each
// with targets (host:port) and labels. Source: Prometheus' documentation, "HTTP service discovery".
type HTTPConfig struct {
	// URL that is asked: http:// or https://.
	URL string `yaml:"url"`
	// Interval between questions. 0 means 10s.
	Interval time.Duration `yaml:"interval"`
	// TokenFile names the file with a token that is sent as Authorization: Bearer. It is read for each question.
	TokenFile string `yaml:"token_file"`
	// Scheme of the engines: http or https. Empty means http. A label __scheme__ comes before it.
	Scheme string `yaml:"scheme"`
	// Engine holds for each engine listed, as in a list of endpoints; kv_events and kv_replay with * for the engine's own address
	// (tcp://*:5557). A group says the same by labels, with warmpath_ before the name of the setting. url and name are the list's.
	Engine EndpointConfig `yaml:"engine"`
}

// Validate reports every fault, each a *FieldError, joined into one error.
func (c HTTPConfig) Validate() error {
	var faults []error
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		faults = append(faults, fault("url", "%q must be an address with http:// or https://", c.URL))
	} else if u.User != nil {
		faults = append(faults, fault("url", "must not hold a password; use token_file"))
	}
	if c.Interval != 0 && c.Interval < time.Second {
		faults = append(faults, fault("interval", "is %v, must be 1s or more", c.Interval))
	}
	if !slices.Contains([]string{"", "http", "https"}, c.Scheme) {
		faults = append(faults, fault("scheme", "is %q, must be http or https", c.Scheme))
	}
	return errors.Join(append(faults, c.Engine.checkTemplate()...)...)
}

// labelPrefix begins the labels that are ours.
const labelPrefix = "warmpath_"

// HTTP asks a web address again and again and publishes what it lists as source "http:URL".
type HTTP struct {
	c      HTTPConfig
	client *http.Client
	keys   Keys
	log    *slog.Logger

	seen []byte // the last list, good or bad: each is judged once
	last []fleet.Endpoint
	told bool
	said string // the last fault, said once
}

// NewHTTP makes a source. Its faults are those of the configuration and of keys; the address is first asked by Run.
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

// Source is the name under which it publishes.
func (h *HTTP) Source() string { return "http:" + h.c.URL }

// Run asks at once and then once an interval, until ctx ends.
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

// look asks once. A list that cannot be had or has faults is said once and changes nothing.
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
			return
		}
		found, err = h.c.endpoints(list)
		h.seen = list
	}
	if err != nil {
		if h.said != err.Error() {
			h.log.Warn("the list of endpoints cannot be had or has faults; the last good one stays", "source", h.Source(), "kept", len(h.last), "error", err)
		}
		h.said = err.Error()
		return
	}
	h.said = ""
	if h.told && Equal(found, h.last) {
		return
	}
	h.log.Info("endpoints changed", "source", h.Source(), "endpoints", len(found))
	h.last, h.told = found, true
	publish(route.Declared{Source: h.Source(), Endpoints: slices.Clone(found)})
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

// endpoints are those that a list declares.
func (c HTTPConfig) endpoints(list []byte) ([]fleet.Endpoint, error) {
	var groups []struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(list, &groups); err != nil {
		return nil, fmt.Errorf("not the JSON of Prometheus' HTTP service discovery, a list of {\"targets\": [...], \"labels\": {...}}: %w", err)
	}
	if groups == nil {
		return nil, errors.New("the list is null; an empty one is []")
	}
	configs := []EndpointConfig{}
	for i, g := range groups {
		e := c.Engine
		for key, value := range g.Labels {
			if name, ours := strings.CutPrefix(key, labelPrefix); ours {
				if err := e.SetTrait(name, value); err != nil {
					return nil, fmt.Errorf("group %d: the label %s: %w", i+1, key, err)
				}
			}
		}
		for _, target := range g.Targets {
			configs = append(configs, e.At(cmp.Or(g.Labels["__scheme__"], c.Scheme), target))
		}
	}
	return Endpoints(configs, None())
}
