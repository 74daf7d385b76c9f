// Package migrate turns the configuration of another router into the equivalent one of warmpath, and says what has no
// equivalent. It reads bytes and words and touches nothing: neither files nor engines.
//
// What is known of the others' settings was read in their sources: TensorRT-LLM's disaggregated YAML
// (tensorrt_llm/llmapi/disagg_utils.py, epochs of April to September 2026), SMG 1.9 to 1.13 (smg launch) with the flags
// of SGLang's router before it, vllm-project/router 0.1.17, production-stack at a6c01db0, and llm-d's
// EndpointPickerConfig (llm-d.ai/v1alpha1). A setting that is not known is listed and skipped: versions differ, and a
// warning beats a refusal.
package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// A reader is one router's configuration: as YAML, as a command line, or either.
type reader struct {
	name  string
	tree  func(d *draft, root *node)
	flags func(d *draft) []flag
	short func(text string) string // the long form of a flag that has a short one; nil where none has
}

func readers() []reader {
	return []reader{
		{name: "trtllm", tree: readTRTLLM, flags: trtllmFlags, short: trtllmShort},
		{name: "smg", flags: smgFlags},
		{name: "vllm-router", flags: vllmRouterFlags},
		{name: "production-stack", tree: readStack, flags: stackFlags},
		{name: "llm-d", tree: readLLMDFile, flags: llmdFlags},
	}
}

// Names lists the routers whose configuration can be read.
func Names() []string {
	var names []string
	for _, r := range readers() {
		names = append(names, r.name)
	}
	return names
}

// ErrUnknown says that a router's name is none of Names.
var ErrUnknown = errors.New("unknown router")

// MaxBytes bounds what is read.
const MaxBytes = 4 << 20

// File converts a configuration file: YAML, or the text of a command line where the router has none or the text is one.
// The error is ErrUnknown, or lists every place where the text is malformed as "file:line: what".
func File(router, file string, data []byte) (Result, error) {
	r, err := find(router)
	if err != nil {
		return Result{}, err
	}
	if len(data) > MaxBytes {
		return Result{}, fmt.Errorf("%s is larger than %d MiB", file, MaxBytes>>20)
	}
	if r.tree == nil || r.flags != nil && isCommand(data) {
		words, err := split(file, string(data))
		if err != nil {
			return Result{}, err
		}
		return r.command(file, words)
	}
	if firstLine(data) == "" {
		return Result{}, fmt.Errorf("%s is empty; where nothing is set for %s's router, write {}", file, router)
	}
	root, err := parseTree(file, data)
	if err != nil {
		return Result{}, err
	}
	d := &draft{file: file}
	r.tree(d, root)
	known := root.touched()
	d.leftovers(root, "")
	if !known && len(root.items) > 0 {
		return Result{}, fmt.Errorf(
			"%s: nothing in it is a setting of %s's router; give its configuration, or its command line after --",
			file, router)
	}
	return d.result()
}

// Flags converts a command line that was given as arguments. One argument with spaces in it is split as a shell would.
func Flags(router string, args []string) (Result, error) {
	r, err := find(router)
	if err != nil {
		return Result{}, err
	}
	if len(args) == 1 && strings.ContainsAny(args[0], " \t\n") {
		words, err := split("command line", args[0])
		if err != nil {
			return Result{}, err
		}
		return r.command("", words)
	}
	words := make([]word, len(args))
	for i, a := range args {
		words[i] = word{text: a}
	}
	return r.command("", words)
}

func (r *reader) command(file string, words []word) (Result, error) {
	d := &draft{file: file}
	if r.short != nil {
		for i := range words {
			words[i].text = r.short(words[i].text)
		}
	}
	if !slices.ContainsFunc(words, func(w word) bool { return isFlag(w.text) }) {
		return Result{}, fmt.Errorf("%s: no flag in it; give the command line of %s",
			cmp.Or(file, "command line"), r.name)
	}
	d.read(words, r.flags(d))
	return d.result()
}

func find(router string) (reader, error) {
	for _, r := range readers() {
		if r.name == router {
			return r, nil
		}
	}
	hint := strictyaml.DidYouMean(router, Names())
	if slices.Contains([]string{"litellm", "nginx", "envoy"}, strings.ToLower(router)) {
		hint = "; docs/migrating-proxies.md has its settings beside ours"
	}
	return reader{}, fmt.Errorf("%w %q%s; known: %s", ErrUnknown, router, hint, strings.Join(Names(), ", "))
}

// isCommand reports whether a text is a command line: its first line that says something has a flag in it, or goes on
// in the next, and is no YAML.
func isCommand(data []byte) bool {
	line := firstLine(data)
	return strings.HasPrefix(line, "--") || strings.Contains(line, " --") || strings.HasSuffix(line, `\`)
}

// firstLine is the first line that says something, "" for none.
func firstLine(data []byte) string {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}
