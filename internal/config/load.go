package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/policy"
)

const largestFile = 16 << 20 // bytes

// Override sets one value from outside the file, as a flag does.
type Override struct {
	Path []string // keys, such as {"log", "level"}
	Text string   // as in the environment
	From string   // source for messages: "--log-level"
}

// Faults lists everything wrong with a configuration, one line each, in the order of locations.
type Faults []error

// Error is one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, e := range f {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (f Faults) Unwrap() []error { return f }

// Load makes the configuration: defaults, then the file at path (none if ""), then the WARMPATH_ variables of env
// ("NAME=value" each), then overrides. Where that finds no fault, the files that it names are checked too (CheckFiles).
// A configuration with faults comes with an error of type Faults; valid settings are applied all the same. Load can be
// called again.
func Load(path string, env []string, keys discovery.Keys, overrides ...Override) (Config, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = readFile(path); err != nil {
			return Default(), Faults{err}
		}
	}
	c, l, err := parse(path, data, env, overrides)
	if err != nil {
		return c, err
	}
	if faults := l.placed(c.CheckFiles(keys)); len(faults) > 0 {
		return c, Faults(strictyaml.Sorted(errors.Join(faults...)))
	}
	return c, nil
}

// otherNames are names that other routers and servers have for keys.
var otherNames = map[string]string{
	"engines": "endpoints", "backends": "endpoints", "servers": "endpoints", "upstreams": "endpoints",
	"workers": "endpoints", "worker_urls": "endpoints", "targets": "endpoints", "instances": "endpoints",
	"port": "listen", "host": "listen", "bind": "listen", "address": "listen",
	"strategy": "policy", "algorithm": "policy", "routing": "policy", "load_balancing": "policy",
	"model_aliases": "models",
	"ca_file":       "ca", "ca_cert": "ca", "cert_file": "cert", "certificate": "cert", "private_key": "key",
}

// foreign are keys by which files of other routers are known, and what to do with such a file.
var foreign = map[string]string{
	"context_servers":    "warmpath check --from trtllm FILE converts it",
	"generation_servers": "warmpath check --from trtllm FILE converts it",
	"servingEngineSpec":  "warmpath check --from production-stack FILE converts it",
	"routerSpec":         "warmpath check --from production-stack FILE converts it",
	"schedulingProfiles": "warmpath check --from llm-d FILE converts it",
	"inferenceExtension": "warmpath check --from llm-d FILE converts it",
	"model_list":         "docs/migrating-proxies.md has LiteLLM's settings beside ours",
}

// Parse is Load with the file's content given.
func Parse(file string, data []byte, env []string, overrides ...Override) (Config, error) {
	c, _, err := parse(file, data, env, overrides)
	return c, err
}

func parse(file string, data []byte, env []string, overrides []Override) (Config, *loader, error) {
	c := Default()
	places, err := strictyaml.Decode(file, data, &c,
		strictyaml.Options{Scalars: scalars(), Others: otherNames, Foreign: foreign})
	l := loader{config: &c, places: places, origin: map[string]string{}}
	faults := strictyaml.Flatten(err)
	fromEnv, envFaults := environment(env)
	faults = append(faults, envFaults...)
	for _, o := range append(fromEnv, overrides...) {
		if err := l.set(o); err != nil {
			faults = append(faults, &strictyaml.Fault{File: o.From, Path: strings.Join(o.Path, "."), Err: err})
			l.origin[strings.Join(o.Path, ".")] = "" // wrong; what follows from it is not reported again
		}
	}
	if c.Admin.Listen == "off" {
		c.Admin.Listen = ""
	}
	if faults = append(faults, l.placed(c.Validate())...); len(faults) > 0 {
		return c, &l, Faults(strictyaml.Sorted(errors.Join(faults...)))
	}
	return c, &l, nil
}

// readFile reads a configuration. An empty file is a fault: that is what stands there while a writer replaces its
// content, or when the disk was full, and it must not take all endpoints away.
func readFile(path string) ([]byte, error) {
	data, err := wholefile.Read(path, largestFile)
	switch {
	case path == "-" && errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: standard input is /dev/stdin", err)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: write one with warmpath init -o %s", err, path)
	case err == nil && len(bytes.TrimSpace(data)) == 0:
		err = fmt.Errorf("%s is empty; a configuration without settings is {}", path)
	}
	return data, err
}

// scalars defines the plain texts that may replace a mapping.
func scalars() map[string]strictyaml.Scalar {
	s := discovery.Scalars()
	s["policy.Config"] = func(into any, text string) error {
		into.(*policy.Config).Name = text
		return nil
	}
	s["config.AccessLog"] = func(into any, text string) error {
		into.(*AccessLog).File = text
		return nil
	}
	s["config.TenantKey"] = keyScalar
	s["config.AliasModels"] = func(into any, text string) error {
		var names []string
		err := strictyaml.Set(reflect.ValueOf(&names).Elem(), text)
		for _, name := range names {
			*into.(*AliasModels) = append(*into.(*AliasModels), AliasModel{Model: name})
		}
		return err
	}
	s["config.AliasModel"] = func(into any, text string) error {
		into.(*AliasModel).Model = text
		return nil
	}
	s["config.Explain"] = explainScalar
	s["config.Queue"] = func(into any, text string) error {
		into.(*Queue).Mode = text
		return nil
	}
	s["config.Disaggregation"] = func(into any, text string) error {
		if text == StackConditional {
			into.(*Disaggregation).Preset = text
			return nil
		}
		into.(*Disaggregation).When = text
		return nil
	}
	s["config.Shadow"] = shadowScalar
	return s
}

type loader struct {
	config *Config
	places *strictyaml.Places
	origin map[string]string // path -> variable or flag that set it; "" when it could not
}

// set stores an override at its path.
func (l *loader) set(o Override) error {
	if err := setAt(reflect.ValueOf(l.config).Elem(), o.Path, o.Text); err != nil {
		return err
	}
	l.origin[strings.Join(o.Path, ".")] = o.From
	l.instead(o.Path)
	return nil
}

// instead removes what the file says of the same secret in the other way: itself or in a file of its own. The
// environment and flags count before it.
func (l *loader) instead(path []string) {
	last := len(path) - 1
	other, inFile := strings.CutSuffix(path[last], "_file")
	if !inFile {
		other += "_file"
	}
	at := append(slices.Clone(path[:last]), other)
	_, is := Variables()[Variable(at)]
	if _, overridden := l.origin[strings.Join(at, ".")]; is && !overridden {
		_ = setAt(reflect.ValueOf(l.config).Elem(), at, "")
	}
}

// setAt stores a text at a path below v.
func setAt(v reflect.Value, path []string, text string) error {
	for i, key := range path {
		if v.Kind() == reflect.Map {
			if i+1 < len(path) {
				return fmt.Errorf("no setting %q", strings.Join(path, "."))
			}
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			item := reflect.New(v.Type().Elem()).Elem()
			set := func() error { return strictyaml.Set(item, text) }
			if special, ok := scalars()[item.Type().String()]; ok {
				set = func() error { return special(item.Addr().Interface(), text) }
			}
			if err := set(); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(key), item)
			return nil
		}
		var fields []strictyaml.Field
		if v.Kind() == reflect.Struct {
			fields = strictyaml.Fields(v.Type())
		}
		at := slices.IndexFunc(fields, func(f strictyaml.Field) bool { return f.Name == key })
		if at < 0 {
			return fmt.Errorf("no setting %q", strings.Join(path, "."))
		}
		v = v.FieldByIndex(fields[at].Index)
	}
	if list, ok := v.Addr().Interface().(*[]discovery.EndpointConfig); ok {
		parsed, err := discovery.ParseEndpoints(text)
		if err != nil {
			return err
		}
		*list = parsed
		return nil
	}
	return strictyaml.Set(v, text)
}

// placed is the faults of err with their locations, without those that follow from others.
func (l *loader) placed(err error) (faults []error) {
	for _, e := range strictyaml.Flatten(err) {
		if e = l.place(e); e != nil {
			faults = append(faults, e)
		}
	}
	return faults
}

// place finds the location of a fault of Validate or CheckFiles; nil if the fault follows from one already reported.
func (l *loader) place(err error) error {
	path := ""
	if fe := (*discovery.FieldError)(nil); errors.As(err, &fe) {
		path = fe.Field
	}
	for p := path; p != ""; p = strictyaml.Parent(p) {
		if from, ok := l.origin[p]; ok {
			if from == "" {
				return nil
			}
			return &strictyaml.Fault{File: from, Path: path, Err: err}
		}
	}
	if l.places.Wrong(path) {
		return nil
	}
	if l.places.Has(path) {
		return l.places.Fault(path, err)
	}
	return err
}
