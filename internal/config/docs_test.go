package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/policy"
)

var update = flag.Bool("update", false, "write docs/config.md")

const (
	root      = "../.."
	module    = "github.com/warmpath/warmpath/"
	reference = root + "/docs/config.md"
)

// TestReference fails when docs/config.md does not say what the code says. -update writes it.
func TestReference(t *testing.T) {
	r := &reader{t: t, docs: map[string]map[string]string{}}
	want := r.page()
	if *update {
		if err := os.WriteFile(reference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/config.md is stale; run: go test ./internal/config -run TestReference -update")
	}
}

// TestExample keeps the example in the reference valid.
func TestExample(t *testing.T) {
	if _, err := Parse("example", []byte(example), nil); err != nil {
		t.Error(err)
	}
}

const example = `listen: 0.0.0.0:8080
endpoints:
  - http://10.0.0.1:8000
  - url: http://10.0.0.2:8000
    kind: vllm
    weight: 2
policy: session
models:
  aliases:
    fast: [llama-3.1-8b, qwen3-8b]
`

const intro = `# Configuration

<!-- Generated from the code: go test ./internal/config -run TestReference -update -->

warmpath reads defaults, then the file (` + "`-c FILE`" + ` or ` + "`WARMPATH_CONFIG`" + `, YAML or JSON), then the environment, then flags; later
ones win. ` + "`warmpath check -c FILE`" + ` shows what would run, or every fault with its location. An unknown key or
` + "`WARMPATH_`" + ` variable is a fault.

` + "```yaml\n" + example + "```" + `

Durations are written as ` + "`5s`, `1m30s`" + `; sizes as ` + "`64MiB`, `500kB`" + ` or a number of bytes. An empty variable counts as not set.
` + "`WARMPATH_ENDPOINTS`" + ` holds endpoints separated by commas or spaces, each ` + "`URL[,key=value...]`" + ` as ` + "`--endpoint`" + ` takes it. Variables that
Kubernetes sets for a Service named warmpath (` + "`WARMPATH_SERVICE_HOST`, `WARMPATH_PORT`" + `, ...) are ignored. TensorRT-LLM's own
` + "`TRTLLM_KVCACHE_AWARE_ROUTER_HASH_TOKENS_PER_BLOCK`" + ` overrides ` + "`policy.trtllm.kv_cache_aware.tokens_per_block`" + ` of the file, as it does there; ` + "`WARMPATH_POLICY_TRTLLM_KV_CACHE_AWARE_TOKENS_PER_BLOCK`" + ` overrides both.
`

// reader collects the comments of struct fields from the source.
type reader struct {
	t    *testing.T
	docs map[string]map[string]string // package path -> Type or Type.Field -> comment
}

func (r *reader) page() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n## The settings that most people touch\n\n| Key | Default | Meaning |\n|---|---|---|\n")
	for _, key := range common {
		fmt.Fprintf(&b, "| `%s` | %s\n", key, r.row(key))
	}
	r.section(&b, "", nil, reflect.ValueOf(Default()))
	return b.String()
}

// common are the settings that most people touch.
var common = []string{
	"listen", "endpoints[].url", "endpoints[].role", "endpoints[].weight", "endpoints[].api_key_file", "discovery.file",
	"models.aliases", "policy.name", "disaggregation.when", "tenants.api_keys", "tls.cert", "admin.listen",
	"admin.token_file", "timeouts.first_byte", "log.format",
}

// row is the default and the meaning of a key.
func (r *reader) row(key string) string {
	v := reflect.ValueOf(Default())
	parts := strings.Split(key, ".")
	for i, part := range parts {
		name, list := strings.CutSuffix(part, "[]")
		found := false
		for _, f := range strictyaml.Fields(v.Type()) {
			if found = f.Name == name; !found {
				continue
			}
			at := v.FieldByIndex(f.Index)
			if i == len(parts)-1 {
				doc := plain(f.Go, f.Name, r.comment(v.Type(), f.Go))
				return fmt.Sprintf("%s | %s |", shown(at, doc), strings.ReplaceAll(doc, "|", "\\|"))
			}
			if v = at; list {
				v = reflect.New(f.Type.Elem()).Elem()
			}
			break
		}
		if !found {
			r.t.Fatalf("there is no setting %s", key)
		}
	}
	return ""
}

// section writes the table of one struct and then those below it.
func (r *reader) section(b *strings.Builder, title string, path []string, v reflect.Value) {
	t := v.Type()
	if title == "" {
		b.WriteString("\n## Top level\n\n")
	} else {
		fmt.Fprintf(b, "\n## `%s`\n\n%s\n\n", title, plain(t.Name(), title, r.comment(t, "")))
	}
	b.WriteString("| Key | Type | Default | Meaning | Variable |\n|---|---|---|---|---|\n")
	type below struct {
		title string
		path  []string
		value reflect.Value
	}
	var rest []below
	for _, f := range strictyaml.Fields(t) {
		at := append(path[:len(path):len(path)], f.Name)
		name := f.Name
		if title != "" {
			name = title + "." + f.Name
		}
		doc := plain(f.Go, f.Name, r.comment(t, f.Go))
		if doc == "" {
			r.t.Errorf("%s.%s has no comment", t, f.Go)
		}
		value := v.FieldByIndex(f.Index)
		switch {
		case f.Type.Kind() == reflect.Struct && !strictyaml.IsLeaf(f.Type):
			rest = append(rest, below{name, at, value})
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			rest = append(rest, below{name + "[]", nil, reflect.New(f.Type.Elem()).Elem()})
		case f.Type.Kind() == reflect.Map && f.Type.Elem().Kind() == reflect.Slice &&
			f.Type.Elem().Elem().Kind() == reflect.Struct:
			rest = append(rest, below{name + ".NAME[]", nil, reflect.New(f.Type.Elem().Elem()).Elem()})
		}
		variable := ""
		inList := strings.Contains(title, "[]")
		if _, ok := Variables()[Variable(at)]; ok && !inList {
			variable = "`" + Variable(at) + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.Name, typeOf(f.Type), shown(value, doc),
			strings.ReplaceAll(doc, "|", "\\|"), variable)
	}
	for _, s := range rest {
		r.section(b, s.title, s.path, s.value)
	}
}

// plain is a Go comment as users read it: without the name of the type or field that it begins with, which they do not
// know, or with the key in its place.
func plain(name, key, doc string) string {
	rest, ok := strings.CutPrefix(doc, name+" ")
	if !ok {
		return doc
	}
	verb, object, _ := strings.Cut(rest, " ")
	switch {
	case verb == "is" || verb == "are":
		rest = object
	case strings.HasSuffix(verb, "s") && verb != "was" && verb != "this":
	case strings.ToLower(name[1:]) != name[1:]:
		return "`" + key + "` " + rest
	default:
		return doc
	}
	if first, _, _ := strings.Cut(rest, " "); strings.ContainsAny(first, "._") {
		return rest
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// meansDefault finds the default that a comment names for a value that is not set.
var meansDefault = regexp.MustCompile(`(?:0|Empty|Not stated) means ([a-z0-9_.:]+?)[.;,](?: |$)`)

// shown is a default as the file would hold it.
func shown(v reflect.Value, doc string) string {
	switch {
	case v.Kind() == reflect.Struct || v.Kind() == reflect.Map || v.Kind() == reflect.Slice:
		return ""
	case v.IsZero() && v.Kind() != reflect.Bool:
		if m := meansDefault.FindStringSubmatch(doc); m != nil {
			return "`" + m[1] + "`"
		}
		if v.Kind() == reflect.Pointer || v.Kind() == reflect.String {
			return ""
		}
	}
	text := fmt.Sprint(tree(v))
	if d, ok := v.Interface().(time.Duration); ok && d > 0 {
		switch {
		case d%time.Hour == 0:
			text = strings.TrimSuffix(text, "0m0s")
		case d%time.Minute == 0:
			text = strings.TrimSuffix(text, "0s")
		}
	}
	return "`" + text + "`"
}

// comment is the doc comment of a type, or of its field, as one paragraph.
func (r *reader) comment(t reflect.Type, field string) string {
	pkg := strings.TrimPrefix(t.PkgPath(), module)
	if r.docs[pkg] == nil {
		r.docs[pkg] = r.read(pkg)
	}
	key := t.Name()
	if field != "" {
		key += "." + field
	}
	return strings.Join(strings.Fields(r.docs[pkg][key]), " ")
}

func (r *reader) read(pkg string) map[string]string {
	out := map[string]string{}
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil || len(files) == 0 {
		r.t.Fatalf("no source in %s: %v", pkg, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				typ := spec.(*ast.TypeSpec)
				out[typ.Name.Name] = gen.Doc.Text()
				if s, ok := typ.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, n := range f.Names {
							out[typ.Name.Name+"."+n.Name] = f.Doc.Text()
						}
					}
				}
			}
		}
	}
	return out
}

// typeOf is the type of a setting in words, for the reference.
func typeOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[policy.Config]():
		return "name, or mapping"
	case t == reflect.TypeFor[[]discovery.EndpointConfig]():
		return "list of mappings or texts"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return "list of mappings"
	case t.Kind() == reflect.Slice:
		return "list of texts"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Slice && t.Elem().Elem().Kind() == reflect.Struct:
		return "mapping of text to list of texts or mappings"
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.String:
		return "mapping of text to text"
	case t.Kind() == reflect.Map:
		return "mapping of text to list of texts"
	}
	return strings.TrimPrefix(strings.TrimPrefix(strictyaml.Wants(t), "a "), "whole ")
}
