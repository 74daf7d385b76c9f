package main

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/policy/leastttft"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/sim/drive"
)

// mostVariants bounds the combinations of options that one policy is compared with.
const mostVariants = 64

// setting is one --set: an option and the values to compare.
type setting struct {
	key    string // as given
	values []string
}

// variant is a policy with one combination of options.
type variant struct {
	label  string            // what tells it from the policy's other variants, "" for the only one
	set    map[string]string // options by their paths, and of several queues the one, as queue; nil for none
	config policy.Config
	queue  route.QueueConfig
}

// settings parses --set. The same option may be given once.
func (o *simulateOptions) settings() ([]setting, error) {
	var out []setting
	var errs []error
	for _, text := range o.set {
		key, values, ok := strings.Cut(text, "=")
		s := setting{strings.TrimPrefix(key, "policy."), strings.Split(values, ",")}
		switch {
		case !ok || key == "" || slices.Contains(s.values, ""):
			errs = append(errs,
				fmt.Errorf("--set %q: want POLICY.OPTION=VALUE, or several values with commas between", text))
		case slices.ContainsFunc(out, func(x setting) bool { return x.key == s.key }):
			errs = append(errs, fmt.Errorf("--set gives %s twice; write its values with commas between", s.key))
		default:
			out = append(out, s)
		}
	}
	return out, errors.Join(errs...)
}

// option is the option of a policy that a key means: by its path below "policy", or by the policy's own name.
func option(name, key string) (string, bool) {
	for _, path := range config.PolicyOptions(name) {
		if key == path || key == name+path[strings.LastIndexByte(path, '.'):] {
			return path, true
		}
	}
	return "", false
}

// variants are the combinations of options to play a policy with.
func (o *simulateOptions) variants(name string, settings []setting) ([]variant, error) {
	without, _ := ablation.Of(o.without...) // check has validated it
	base := policy.Config{Name: name, LeastTTFT: leastttft.Config{Without: without}}.WithDefaults()
	if name == drive.OracleName {
		return []variant{{config: base}}, nil
	}
	var all []variant
	for _, mode := range o.queues {
		v := variant{config: base}
		if len(o.queues) > 1 {
			v.label, v.set = "queue "+mode, map[string]string{"queue": mode}
		}
		v.queue, _ = config.Queue{Mode: mode, Ahead: o.ahead, Patience: route.DefaultPatience}.Of(base)
		all = append(all, v)
	}
	for _, s := range settings {
		path, ok := option(name, s.key)
		if !ok {
			continue
		}
		var next []variant
		for _, v := range all {
			for _, text := range s.values {
				x := v
				if err := config.SetPolicyOption(&x.config, path, text); err != nil {
					return nil, fmt.Errorf("--set %s: %w", s.key, err)
				}
				x.set = maps.Clone(x.set)
				if x.set == nil {
					x.set = map[string]string{}
				}
				x.set[path] = text
				if len(s.values) > 1 {
					x.label = strings.TrimPrefix(x.label+" "+text, " ")
				}
				next = append(next, x)
			}
		}
		if all = next; len(all) > mostVariants {
			return nil, fmt.Errorf("--set makes more than %d combinations of options for %s", mostVariants, name)
		}
	}
	for _, v := range all {
		if !reflect.DeepEqual(v.config, v.config.WithDefaults()) {
			return nil, fmt.Errorf(
				"--set, %s %v: 0 stands for the default here; docs/config.md says what stands for none", name, v.set)
		}
		if len(v.set) == 0 { // the check of --policy reports its faults
			continue
		}
		if err := v.config.Validate(); err != nil {
			return nil, fmt.Errorf("--set, %s %s: %w", name, v.label, err)
		}
	}
	return all, nil
}

// checkSettings reports every fault of --set.
func (o *simulateOptions) checkSettings() error {
	settings, err := o.settings()
	if err != nil {
		return err
	}
	var errs []error
	var known []string
	for _, name := range o.policies {
		if _, err := o.variants(name, settings); err != nil {
			errs = append(errs, err)
		}
		known = append(known, config.PolicyOptions(name)...)
	}
	slices.Sort(known)
	for _, s := range settings {
		if !slices.ContainsFunc(o.policies, func(name string) bool { _, ok := option(name, s.key); return ok }) {
			hint := strictyaml.Suggest(s.key, slices.Compact(known))
			errs = append(errs, fmt.Errorf("--set %s: no policy of --policy (%s) reads it%s",
				s.key, strings.Join(o.policies, ", "), hint))
		}
	}
	return errors.Join(errs...)
}

// legend says what the labels of variants are, "" where nothing varies.
func (o *simulateOptions) legend() string {
	settings, _ := o.settings()
	var keys []string
	for _, s := range settings {
		if len(s.values) > 1 {
			keys = append(keys, s.key)
		}
	}
	if keys == nil {
		return ""
	}
	return "In brackets after a policy's name: " + strings.Join(keys, ", ") + "."
}
