package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/migrate"
)

// settings are the flags for values of the configuration, the same for serve and check.
type settings struct {
	file      string
	trtllm    string
	urls      []string // arguments of the command
	endpoints []string
	prefill   []string
	decode    []string
	aliases   []string
	flags     *pflag.FlagSet
}

// setters maps a flag to the path it sets.
var setters = []struct {
	flag string
	path []string
}{
	{"listen", []string{"listen"}},
	{"admin", []string{"admin", "listen"}},
	{"peer-listen", []string{"peers", "listen"}},
	{"peers", []string{"peers", "routers"}},
	{"extproc", []string{"extproc", "listen"}},
	{"policy", []string{"policy", "name"}},
	{"shadow", []string{"shadow", "policies"}},
	{"record", []string{"record", "file"}},
	{"disagg-when", []string{"disaggregation", "when"}},
	{"disagg-threshold", []string{"disaggregation", "threshold"}},
	{"disagg-connector", []string{"disaggregation", "connector"}},
	{"disagg-preset", []string{"disaggregation", "preset"}},
	{"routing-threshold", []string{"disaggregation", "routing_threshold"}},
	{"load-balancing-strategy", []string{"disaggregation", "load_balancing_strategy"}},
	{"disagg-connector-type", []string{"disaggregation", "disagg_connector_type"}},
	{"decoder-host", []string{"disaggregation", "decoder_host"}},
	{"decoder-init-port", []string{"disaggregation", "decoder_init_port"}},
	{"decoder-alloc-port", []string{"disaggregation", "decoder_alloc_port"}},
	{"decoder-registry", []string{"disaggregation", "decoder_registry"}},
	{"log-level", []string{"log", "level"}},
	{"log-format", []string{"log", "format"}},
	{"log-requests", []string{"log", "requests"}},
}

// add declares the flags. Their defaults are shown only: a flag that is not given sets nothing.
func (s *settings) add(cmd *cobra.Command) {
	d := config.Default()
	f := cmd.Flags()
	s.flags = f
	f.SortFlags = false
	f.StringVarP(&s.file, "config", "c", "", "configuration `FILE` (YAML or JSON); also $"+config.FileVariable)
	f.StringVar(&s.trtllm, "trtllm-config", "", "the `FILE` of trtllm-serve disaggregated, instead of --config")
	f.String("listen", d.Listen, "`ADDRESS` for clients' requests")
	f.StringArrayVar(&s.endpoints, "endpoint", nil, "engine `URL`, repeatable; options follow after commas: "+
		"weight=2, name=a, kind=vllm, ranks=4, models=m1+m2, ...")
	f.String("policy", d.Policy.Name, "`NAME` of the policy that chooses the endpoint")
	f.String("admin", d.Admin.Listen, "`ADDRESS` for metrics and the admin API; off for none")
	f.StringArrayVar(&s.aliases, "model-alias", nil,
		"`NAME=MODEL[,MODEL...]`, repeatable: another name for models; * for every unknown name")
	f.StringArrayVar(&s.prefill, "prefill", nil,
		"engine `URL` that computes prompts for others, repeatable; options as of --endpoint")
	f.StringArrayVar(&s.decode, "decode", nil,
		"engine `URL` that generates answers to prompts computed by others, repeatable; options as of --endpoint")
	f.String("disagg-when", d.Disaggregation.When, "`WHEN` requests are split over --prefill and --decode: time, "+
		"always, never, tokens or uncached; free needs no roles")
	f.String("disagg-threshold", "0", "`TOKENS` for --disagg-when tokens and uncached")
	f.String("disagg-connector", "", "`NAME` of the protocol by which KV cache is handed over: "+
		strings.Join(handover.Names(), ", ")+"; empty follows the kind of engine")
	f.String("peers", "", "`HOST:PORT[,HOST:PORT...]` of other routers before the same engines, "+
		"or dns://NAME:PORT that has an address for each, with --peer-listen; or redis://HOST:PORT/DB")
	f.String("peer-listen", "", "`ADDRESS` at which other routers reach this one")
	f.String("extproc", "", "`ADDRESS` at which Envoy or a gateway asks where to send requests (external processing)")
	f.String("shadow", "", "`NAME[,NAME...]` of shadow policies, evaluated but not applied; see explain --shadow")
	f.String("record", "", "`FILE` that gets the traffic, for simulate: hashes, sizes, times and outcomes, never text")
	f.String("log-level", d.Log.Level, "`LEVEL`: debug, info, warn or error")
	f.String("log-format", d.Log.Format, "`FORMAT`: text or json")
	f.Bool("log-requests", d.Log.Requests, "log one line for each request")
	f.String("disagg-preset", "",
		"`NAME`: stack.conditional splits as production-stack PR 890, by the next three flags, which are its own")
	f.String("routing-threshold", "0", "`TOKENS` from which stack.conditional splits a prompt; 0 splits all")
	f.String("load-balancing-strategy", "",
		"`NAME` of stack.conditional's load balancing: round_robin (default) or least_loaded")
	f.String("disagg-connector-type", "", "`NAME` of stack.conditional's connector: nixl (default) or lmcache")
	f.String("decoder-host", "", "`HOST` at which lmcache's single decoder receives; empty takes the host of its URL")
	f.String("decoder-init-port", "",
		"`PORT[,PORT...]` at which a decoder of lmcache initialises transfers, one for each tensor-parallel rank")
	f.String("decoder-alloc-port", "",
		"`PORT[,PORT...]` at which a decoder of lmcache allocates, one for each tensor-parallel rank")
	f.String("decoder-registry", "", "JSON, or a `FILE` of it, that says where each decoder of lmcache receives")

	complete := func(flag string, values ...cobra.Completion) {
		// The error means that the flag does not exist; any test would show that.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	completePolicies(cmd)
	complete("log-level", "debug", "info", "warn", "error")
	complete("log-format", "text", "json")
	complete("listen")
	complete("admin")
	complete("endpoint", "http://", "https://")
	complete("prefill", "http://", "https://")
	complete("decode", "http://", "https://")
	complete("disagg-when", "time", "free", "always", "never", "tokens", "uncached")
	complete("disagg-threshold")
	complete("disagg-connector", handover.Names()...)
	complete("disagg-preset", config.StackConditional)
	complete("routing-threshold", "4096")
	complete("load-balancing-strategy", "round_robin", "least_loaded")
	complete("disagg-connector-type", "nixl", "lmcache")
	complete("decoder-host")
	complete("decoder-init-port")
	complete("decoder-alloc-port")
	complete("model-alias")
	complete("peers", "dns://", "redis://")
	complete("peer-listen")
	complete("extproc")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	_ = cmd.MarkFlagFilename("trtllm-config", "yaml", "yml")
	_ = cmd.MarkFlagFilename("record", "jsonl")
	_ = cmd.MarkFlagFilename("decoder-registry", "json")
}

// path is the configuration file to read; "" for none.
func (s *settings) path(e env) string {
	if s.file == "" && !s.flags.Changed("config") {
		if s.file, _ = e.lookup(config.FileVariable); s.file == "" && !s.givesEngines(e) && lies(ownFile) {
			s.file = ownFile
		}
	}
	return s.file
}

// ownFile is read where it lies in the working directory, when neither a flag nor a variable names a file or engines.
const ownFile = "warmpath.yaml"

func lies(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// givesEngines reports whether flags or the environment name engines.
func (s *settings) givesEngines(e env) bool {
	text, _ := e.lookup(config.Variable([]string{"endpoints"}))
	return len(s.urls)+len(s.endpoints)+len(s.prefill)+len(s.decode) > 0 || s.trtllm != "" || text != ""
}

// unread says that a configuration lies here and is not read; "" otherwise.
func (s *settings) unread(e env) string {
	if s.source(e) != "" || s.flags.Changed("config") || !lies(ownFile) {
		return ""
	}
	return ownFile + " in this folder is not read, since engines are given; -c " + ownFile + " reads it"
}

// source is the file that load reads; "" for none.
func (s *settings) source(e env) string {
	if s.trtllm != "" {
		return s.trtllm
	}
	return s.path(e)
}

// load makes the configuration and checks the files in it.
func (s *settings) load(e env) (config.Config, error) {
	overrides, err := s.overrides()
	if err != nil {
		return config.Config{}, usageError(err)
	}
	var cfg config.Config
	keys := discovery.Keys{Lookup: e.lookup}
	if s.trtllm != "" {
		if s.file != "" {
			return cfg, usageError(errors.New("--trtllm-config: give it or --config, not both"))
		}
		var missing []migrate.Missing
		cfg, missing, err = loadTRTLLM(e, s.trtllm, overrides)
		for _, m := range missing {
			fmt.Fprintln(e.stderr, m)
		}
		if err == nil {
			err = cfg.CheckFiles(keys)
		}
	} else {
		cfg, err = config.Load(s.path(e), e.vars, keys, overrides...)
	}
	if err != nil {
		return cfg, usageError(err)
	}
	if cfg.Admin.Token, err = cfg.AdminToken(); err == nil {
		cfg.Admin.ReadToken, err = cfg.AdminReadToken()
	}
	return cfg, usageError(err)
}

func (s *settings) overrides() ([]config.Override, error) {
	var out []config.Override
	for _, set := range setters {
		if f := s.flags.Lookup(set.flag); f.Changed {
			out = append(out, config.Override{Path: set.path, Text: f.Value.String(), From: "--" + set.flag})
		}
	}
	declared, from, err := s.declared()
	if err != nil {
		return nil, err
	}
	if len(declared) > 0 {
		out = append(out, config.Override{Path: []string{"endpoints"}, Text: strings.Join(declared, "\n"), From: from})
	}
	for _, a := range s.aliases {
		name, models, ok := strings.Cut(a, "=")
		if !ok || name == "" || models == "" {
			return nil, fmt.Errorf("--model-alias: %q is not NAME=MODEL[,MODEL...]", a)
		}
		out = append(out, config.Override{
			Path: []string{"models", "aliases", name}, Text: models, From: "--model-alias",
		})
	}
	return out, nil
}

// declared is the endpoints of all flags that name some, in the form of --endpoint.
func (s *settings) declared() (declared []string, from string, err error) {
	for _, of := range []struct {
		flag, options string
		urls          []string
	}{
		{"engine", "", s.urls},
		{"--endpoint", "", s.endpoints},
		{"--prefill", ",role=prefill", s.prefill},
		{"--decode", ",role=decode", s.decode},
	} {
		for _, text := range of.urls {
			if strings.TrimSpace(text) == "" {
				return nil, "", fmt.Errorf("%s: needs a URL", of.flag)
			}
			declared = append(declared, text+of.options)
			if from == "" {
				from = of.flag
			}
		}
	}
	return declared, from, nil
}

// processVariable is the environment variable with the process number of trtllm-serve disaggregated (disagg_utils.py).
const processVariable = "TRTLLM_DISAGG_WORKER_PROCESS_ID"

// loadTRTLLM makes the configuration from the YAML of trtllm-serve disaggregated. Faults that trtllm-serve would also
// report are errors with file and line. It returns settings without an equivalent.
func loadTRTLLM(e env, path string, overrides []config.Override) (config.Config, []migrate.Missing, error) {
	data, err := readSome(path)
	if err != nil {
		return config.Config{}, nil, err
	}
	name := filepath.ToSlash(path)
	if err := migrate.CheckTRTLLM(name, data); err != nil {
		return config.Config{}, nil, err
	}
	result, err := migrate.File("trtllm", name, data)
	if err != nil {
		return config.Config{}, nil, err
	}
	if id, ok := e.lookup(processVariable); ok {
		overrides = append([]config.Override{{Path: []string{"trtllm", "process_id"}, Text: id, From: processVariable}},
			overrides...)
	}
	cfg, err := config.Parse(fmt.Sprintf("(from %s)", name), result.YAML, e.vars, overrides...)
	return cfg, result.Missing, err
}
