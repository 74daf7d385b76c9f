package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strictyaml"
)

const prefix = "WARMPATH_"

// FileVariable names the configuration file if no flag does.
const FileVariable = prefix + "CONFIG"

// serviceLink matches the variables that Kubernetes puts into every container for a Service whose name starts with
// "warmpath" (Kubernetes documentation, "Service": environment variables). They are ignored.
var serviceLink = regexp.MustCompile(
	`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// Variables maps each environment variable to the path that it sets.
func Variables() map[string][]string {
	out := map[string][]string{}
	var walk func(t reflect.Type, path []string)
	walk = func(t reflect.Type, path []string) {
		for _, f := range strictyaml.Fields(t) {
			at := append(slices.Clone(path), f.Name)
			switch {
			case strictyaml.IsLeaf(f.Type) || f.Type == reflect.TypeFor[[]discovery.EndpointConfig]() ||
				f.Type == reflect.TypeFor[[]string]():
				out[Variable(at)] = at
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, at)
			}
		}
	}
	walk(reflect.TypeFor[Config](), nil)
	return out
}

// trtBlockVariable is TensorRT-LLM's own: it overrides the block size of its kv_cache_aware router
// (tensorrt_llm/serve/router.py, all versions).
const trtBlockVariable = "TRTLLM_KVCACHE_AWARE_ROUTER_HASH_TOKENS_PER_BLOCK"

func trtBlockPath() []string {
	return []string{"policy", "trtllm", "kv_cache_aware", "tokens_per_block"}
}

// Variable is the environment variable for a path. The policy's name, which the file may give as "policy: NAME", is
// WARMPATH_POLICY, and the names under shadow are WARMPATH_SHADOW.
func Variable(path []string) string {
	if slices.Equal(path, []string{"policy", "name"}) || slices.Equal(path, []string{"shadow", "policies"}) {
		path = path[:1]
	}
	return prefix + strings.ToUpper(strings.Join(path, "_"))
}

// notSettings are variables of this repository's tests, scripts and examples, without the prefix: where one is exported
// a router starts all the same.
var notSettings = strings.Fields("ARENA AXE BROWSER CHROMIUM CLAIMS COMPARE COMPARE_ENGINES COMPARE_LOAD " +
	"COMPARE_MODEL ENVOY ETCD HURT IMAGE KUBE_ASSETS OAUTH2_PROXY REAL SHOTS STREAMS TRACES")

// environment turns variables into overrides. An empty variable counts as unset.
func environment(env []string) ([]Override, []error) {
	known := Variables()
	values := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, prefix) && name != FileVariable && value != "" {
			values[name] = value
		}
	}
	var out []Override
	var faults []error
	for _, e := range env {
		if name, value, _ := strings.Cut(e, "="); name == trtBlockVariable && value != "" {
			if n, err := strconv.Atoi(value); err != nil || n < 1 {
				faults = append(faults, &strictyaml.Fault{
					File: name, Err: fmt.Errorf("is %q, must be a whole number of tokens, 1 or more", value),
				})
				continue
			}
			// our own variable comes later and takes precedence
			out = append(out, Override{Path: trtBlockPath(), Text: value, From: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if path, ok := known[name]; ok {
			out = append(out, Override{Path: path, Text: values[name], From: name})
		} else if !serviceLink.MatchString(name) && !slices.Contains(notSettings, name[len(prefix):]) {
			names := append(slices.Sorted(maps.Keys(known)), FileVariable)
			faults = append(faults, &strictyaml.Fault{
				File: name, Err: fmt.Errorf("unknown variable%s", strictyaml.Suggest(name, names)),
			})
		}
	}
	return out, faults
}
