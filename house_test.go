package warmpath_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/warmpath/warmpath"

// room is one package's place in the house.
type room struct {
	may   []string // packages of this module that it may import
	third []string // modules of others that it may import
	tests bool     // serves tests and demonstrations only: no part of the router that runs in production
}

// plan is the floor plan. A package that is not here fails the test: say where it belongs.
var plan = map[string]room{
	".": {},

	// The pure floor.
	"fleet":           {may: []string{"session"}},
	"pick":            {may: []string{"fleet"}},
	"kvstream":        {third: []string{"github.com/zeebo/xxh3"}},
	"prefix":          {},
	"route/shadow":    {may: []string{"fit", "fleet", "pick", "prefix", "route/cost", "route/internal/*", "session"}},
	"prompt":          {may: []string{"fleet", "prompt/jsonscan"}, third: []string{"github.com/zeebo/xxh3"}},
	"prompt/jsonscan": {third: []string{"github.com/segmentio/asm", "golang.org/x/sys"}},
	"session":         {third: []string{"github.com/zeebo/xxh3"}},
	"route": {may: []string{
		"fit", "fleet", "kvstream", "pick", "route/ablation", "route/cost", "route/internal/*", "route/learnt",
		"session",
	}, third: []string{"github.com/zeebo/xxh3"}},
	// The rooms of the router. Go refuses everybody outside route; among them Go refuses circles.
	"route/internal/*": {may: []string{
		"fit", "fleet", "kvstream", "pick", "prefix", "route/ablation", "route/cost", "route/internal/*",
		"route/learnt", "session", "slot",
	}, third: []string{"github.com/zeebo/xxh3"}},
	"route/cost":     {may: []string{"fit", "fleet", "pick"}},
	"slot":           {},
	"fit":            {},
	"route/ablation": {},
	"route/learnt":   {may: []string{"fit", "fleet", "session"}},
	"policy": {may: []string{
		"pick", "policy/basic", "policy/leastttft", "policy/nearest", "policy/rank", "policy/reasons", "policy/rivals",
		"policy/stack", "policy/trtllm", "route",
	}},
	"policy/basic":   {may: []string{"fleet", "pick", "policy/byhash", "policy/fair", "policy/reasons", "slot"}},
	"policy/byhash":  {may: []string{"pick"}},
	"policy/content": {may: []string{"fleet"}},
	"policy/fair":    {may: []string{"pick"}},
	"policy/leastttft": {may: []string{
		"fit", "fleet", "pick", "policy/byhash", "policy/fair", "policy/reasons", "route/ablation",
		"route/cost", "slot",
	}},
	"policy/nearest": {},
	"policy/policytest": {
		may: []string{"fleet", "pick", "policy/byhash"}, third: []string{"pgregory.net/rapid"}, tests: true,
	},
	"policy/rank":    {may: []string{"fleet", "pick", "policy/byhash", "policy/reasons", "policy/sent"}},
	"policy/reasons": {may: []string{"pick"}},
	"policy/rivals": {may: []string{
		"fleet", "pick", "policy/byhash", "policy/content", "policy/fair", "policy/reasons", "policy/sent",
	}},
	"policy/sent": {may: []string{"fleet", "pick", "prefix", "slot"}},
	"policy/stack": {may: []string{
		"fleet", "pick", "policy/byhash", "policy/content", "policy/fair", "policy/reasons", "policy/sent",
	}},
	"policy/trtllm": {may: []string{
		"fleet", "pick", "policy/byhash", "policy/content", "policy/fair", "policy/nearest", "policy/reasons",
		"policy/sent", "slot",
	}},
	"engine":          {may: []string{"engine/rawjson", "fleet"}},
	"engine/answer":   {may: []string{"engine/rawjson", "fleet"}},
	"engine/handover": {may: []string{"engine/answer", "engine/rawjson", "fleet"}},
	"engine/kv":       {may: []string{"kvstream"}, third: []string{"github.com/tinylib/msgp", "github.com/zeebo/xxh3"}},
	"engine/rawjson":  {},
	"jinja":           {},
	"sim":             {},
	"sim/chance":      {},
	"sim/text":        {},
	"sim/engine":      {},
	"sim/trace":       {may: []string{"sim/chance", "sim/text"}},
	"sim/rig":         {may: []string{"fleet", "sim/engine", "sim/trace"}},
	"sim/drive": {may: []string{
		"fleet", "pick", "route", "route/ablation", "session", "sim/chance", "sim/engine", "sim/rig",
		"sim/text", "sim/trace",
	}},
	"sim/figures":   {may: []string{"fleet", "route", "sim/drive", "sim/trace"}},
	"sim/calibrate": {may: []string{"sim/engine", "sim/trace"}},

	// The floor that touches the world.
	"internal/accesslog":  {may: []string{"internal/live", "internal/wholelines"}},
	"internal/asynclog":   {},
	"internal/state":      {may: []string{"internal/wholefile", "route"}},
	"internal/guard":      {},
	"internal/httpclient": {},
	"internal/instant":    {},

	"internal/instant/clockset": {tests: true},

	"internal/forwarded": {
		may: []string{"internal/guard", "internal/instant"}, third: []string{"github.com/pires/go-proxyproto"},
	},
	"internal/peers": {
		may: []string{
			"fleet", "internal/instant", "internal/live", "internal/panics", "internal/places", "route",
			"route/learnt", "session",
		},
		third: []string{"github.com/redis/rueidis", "github.com/zeebo/xxh3"},
	},
	"internal/live": {may: []string{"fleet", "route"}},
	"internal/proxy": {
		may: []string{
			"engine/answer", "engine/handover", "fleet", "internal/forwarded", "internal/guard", "internal/httpclient",
			"internal/lastknown",
			"internal/live", "internal/proxy/body", "internal/proxy/catalog", "internal/proxy/client",
			"internal/proxy/fault", "internal/proxy/paths", "internal/proxy/h1", "internal/proxy/transfers",
			"internal/proxy/external", "internal/proxy/timeouts", "internal/proxy/quota", "internal/proxy/rewrite",
			"internal/proxy/send", "internal/proxy/identity", "internal/shortage", "internal/tracing",
			"internal/unixsocket", "prompt", "route",
		}, third: []string{"github.com/google/uuid", "golang.org/x/net"},
	},
	"internal/extproc": {may: []string{
		"fleet", "internal/live", "internal/panics", "internal/proxy/body", "internal/proxy/external", "route",
	}, third: []string{
		"github.com/envoyproxy/go-control-plane", "google.golang.org/grpc", "google.golang.org/protobuf",
	}},
	"internal/lease": {may: []string{
		"fleet", "internal/guard", "internal/panics", "internal/proxy/body", "internal/proxy/external", "prompt",
	}, third: []string{"github.com/zeebo/xxh3"}},
	"internal/proxy/h1":       {},
	"internal/proxy/external": {may: []string{"fleet"}},
	"internal/proxy/body":     {may: []string{"internal/proxy/h1", "prompt"}},
	"internal/proxy/timeouts": {may: []string{
		"fleet", "internal/instant", "internal/live", "internal/proxy/h1", "route",
	}},
	"internal/proxy/quota": {may: []string{"fleet"}, third: []string{"github.com/zeebo/xxh3"}},
	"internal/proxy/paths": {may: []string{"internal/guard", "policy/nearest", "prompt"}},
	"internal/proxy/fault": {
		may: []string{
			"engine/handover", "fleet", "internal/guard", "internal/proxy/body", "internal/proxy/paths",
			"internal/proxy/h1", "internal/proxy/timeouts", "internal/proxy/quota", "internal/proxy/identity", "prompt",
			"prompt/jsonscan", "route",
		},
	},
	"internal/proxy/identity": {
		may: []string{"fleet", "prompt", "session"}, third: []string{"github.com/google/uuid"},
	},
	"internal/proxy/rewrite":   {may: []string{"engine/answer", "engine/handover"}},
	"internal/proxy/transfers": {may: []string{"engine/handover", "prompt"}},
	"internal/proxy/send": {may: []string{
		"engine", "engine/handover", "engine/rawjson", "fleet", "internal/forwarded", "internal/proxy/body",
		"internal/proxy/external", "internal/proxy/identity", "internal/tracing", "prompt", "prompt/jsonscan", "route",
	}, third: []string{"golang.org/x/net"}},
	"internal/proxy/client":  {may: []string{"internal/instant"}},
	"internal/proxy/catalog": {may: []string{"fleet", "internal/live", "internal/panics", "route"}},
	"internal/probe": {
		may: []string{"engine", "fleet", "internal/httpclient", "internal/panics", "internal/shortage", "route"},
	},
	"internal/strictyaml": {third: []string{"github.com/goccy/go-yaml"}},
	"internal/discovery": {
		may: []string{
			"fleet", "internal/filewatch", "internal/strictyaml", "internal/unixsocket", "internal/wholefile", "route",
		},
	},
	"internal/discovery/etcd": {may: []string{"fleet", "internal/discovery", "internal/etcdkeys", "route"}},
	"internal/etcdkeys": {
		may:   []string{"internal/httpclient"},
		third: []string{"go.etcd.io/etcd/client/v3", "go.uber.org/zap", "google.golang.org/grpc"},
	},
	"internal/discovery/kube": {
		may:   []string{"fleet", "internal/discovery", "internal/httpclient", "route"},
		third: []string{"github.com/go-logr/logr", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/klog"},
	},
	"internal/filewatch": {may: []string{"internal/panics"}, third: []string{"github.com/fsnotify/fsnotify"}},
	"internal/config": {may: []string{
		"engine/handover", "fleet", "internal/accesslog", "internal/discovery", "internal/forwarded", "internal/guard",
		"internal/kvevents", "internal/pemfile", "internal/probe", "internal/strictyaml", "internal/unixsocket",
		"internal/wholefile", "policy", "policy/trtllm", "prompt", "route", "route/shadow", "session",
	}},
	"internal/migrate": {
		may: []string{"engine/handover", "internal/strictyaml"}, third: []string{"github.com/goccy/go-yaml"},
	},
	"internal/explain": {may: []string{
		"fleet", "internal/live", "internal/terminal", "internal/wholelines", "pick", "policy/reasons", "route",
	}},
	"internal/shadow": {
		may: []string{"fleet", "internal/live", "internal/terminal", "pick", "route", "route/shadow"},
	},
	"internal/record": {may: []string{
		"fleet", "internal/live", "internal/wholefile", "internal/wholelines", "route", "sim/trace",
	}},
	"internal/trtserve": {
		may: []string{
			"fleet", "internal/etcdkeys", "internal/guard", "internal/instant", "internal/live", "internal/panics",
			"route",
		},
		third: []string{"github.com/prometheus/client_golang"},
	},
	"internal/saturation": {may: []string{"fit", "fleet", "route"}},
	"internal/metrics": {may: []string{
		"fleet", "internal/live", "internal/panics", "internal/saturation", "kvstream", "pick", "route", "route/shadow",
	}, third: []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model"}},
	"internal/admin": {may: []string{
		"fleet", "internal/guard", "internal/live", "internal/saturation", "internal/unixsocket",
		"internal/uplot", "route",
	}},
	"internal/tracing": {
		may: []string{"fleet", "internal/live", "internal/otlp", "route"}, third: []string{"go.opentelemetry.io/otel"},
	},
	"internal/otlp": {may: []string{"internal/httpclient", "internal/pemfile"}, third: []string{
		"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "go.opentelemetry.io/contrib",
		"go.opentelemetry.io/otel", "google.golang.org/grpc",
	}},
	"internal/enginetest": {may: []string{
		"engine/handover", "fleet", "internal/enginetest/api", "internal/enginetest/handover", "internal/enginetest/kv",
		"internal/enginetest/prompts", "internal/enginetest/pump", "sim/engine", "sim/text",
	}, third: []string{"github.com/zeebo/xxh3"}, tests: true},
	"internal/enginetest/api": {may: []string{
		"fleet", "internal/enginetest/kv", "internal/enginetest/prompts", "internal/enginetest/pump", "sim/text",
	}, third: []string{"github.com/zeebo/xxh3"}, tests: true},
	"internal/enginetest/handover": {may: []string{
		"engine/handover", "fleet", "internal/enginetest/api", "internal/enginetest/prompts", "internal/httpclient",
		"internal/zmtp", "sim/text",
	}, third: []string{"github.com/tinylib/msgp", "github.com/zeebo/xxh3"}, tests: true},
	"internal/enginetest/kv": {
		may: []string{"fleet", "internal/zmtp", "sim/engine"}, third: []string{"github.com/tinylib/msgp"}, tests: true,
	},
	"internal/enginetest/prompts": {may: []string{"sim/text"}, third: []string{"github.com/zeebo/xxh3"}, tests: true},
	"internal/enginetest/pump":    {may: []string{"internal/enginetest/kv", "sim/engine"}, tests: true},
	"internal/kvevents": {may: []string{
		"engine", "engine/kv", "fleet", "internal/guard", "internal/instant", "internal/live", "internal/panics",
		"internal/places", "internal/zmtp", "kvstream", "route",
	}},
	"internal/lmcache": {
		may: []string{
			"engine/handover", "fleet", "internal/panics", "internal/places", "internal/wholefile", "internal/zmtp",
		},
		third: []string{"github.com/tinylib/msgp"},
	},
	"internal/zmtp":      {},
	"internal/pemfile":   {may: []string{"internal/wholefile"}},
	"internal/places":    {},
	"internal/panics":    {may: []string{"internal/instant"}},
	"internal/tokenizer": {may: []string{"internal/wholefile", "jinja"}, third: []string{"golang.org/x/text"}},
	"internal/play": {
		may:   []string{"internal/terminal", "sim/text", "sim/trace"},
		third: []string{"github.com/HdrHistogram/hdrhistogram-go", "github.com/google/uuid"}, tests: true,
	},

	"internal/terminal":  {third: []string{"github.com/jedib0t/go-pretty", "golang.org/x/term"}},
	"internal/madeby":    {tests: true},
	"internal/freeport":  {tests: true},
	"internal/wholefile": {},
	"internal/fleetfile": {
		may: []string{"fleet", "internal/strictyaml", "sim/calibrate", "sim/engine", "sim/rig"}, tests: true,
	},
	"internal/doctor": {may: []string{
		"engine", "fleet", "internal/httpclient", "internal/probe", "internal/starter", "internal/terminal", "route",
	}, tests: true},
	"internal/starter": {},
	"internal/console": {may: []string{"internal/terminal"}},
	"internal/simrun": {
		may: []string{"internal/terminal", "sim/drive", "sim/figures", "sim/rig", "sim/trace"}, tests: true,
	},
	"internal/simreport": {
		may: []string{
			"internal/simrun", "internal/terminal", "internal/uplot", "sim/figures", "sim/rig", "sim/trace",
		},
		third: []string{"maragu.dev/gomponents"}, tests: true,
	},
	"internal/demo": {may: []string{
		"fleet", "internal/enginetest", "internal/explain", "internal/httpclient", "internal/play", "internal/terminal",
		"route", "sim/engine", "sim/trace",
	}, tests: true},
	"internal/tune":       {third: []string{"github.com/prometheus/procfs"}},
	"internal/newconns":   {may: []string{"internal/instant"}},
	"internal/shortage":   {may: []string{"internal/places"}},
	"internal/wholelines": {},
	"internal/lastknown":  {},
	"internal/unixsocket": {},
	"internal/uplot":      {},

	// Where everything is tied together.
	"cmd/warmpath": {may: []string{"*"}, third: []string{
		"github.com/coreos/go-systemd/v22", "github.com/spf13/cobra", "github.com/spf13/pflag",
	}},
	"realtest": {tests: true},
}

// onPlan is the row of a package: the rooms of the router share one.
func onPlan(dir string) string {
	const rooms = "route/internal/"
	if strings.HasPrefix(dir, rooms) {
		return rooms + "*"
	}
	return dir
}

// reason says why an import that is not on the plan is refused.
func reason(from, to string) string {
	switch {
	case isPure(from) && strings.HasPrefix(to, "internal/"):
		return "a pure package may not reach the world; hand the value in, or let internal/live tell it as an event"
	case isPure(from):
		return "siblings meet in the values of fleet and pick, not in each other; pass a value"
	case plan[to].tests:
		return "simulated engines and players are no part of the router that serves; only cmd and tests use them"
	case strings.HasPrefix(to, "cmd/"):
		return "nothing imports the command"
	case to == "internal/proxy":
		return "nothing calls a door; listen to internal/live instead"
	case to == "internal/config":
		return "each package owns its Config; internal/config gathers them and cmd hands them out"
	case strings.HasPrefix(from, "internal/proxy/"):
		return "a part of the door is handed what it needs; it imports only the parts below it on the plan"
	default:
		return "packages that touch the world are siblings: cmd/warmpath ties them, or internal/live carries an event"
	}
}

func TestFloorPlan(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range sources(t) {
		dir := path.Dir(f.path)
		if f.test || f.module != "." {
			continue
		}
		seen[onPlan(dir)] = true
		here, known := plan[onPlan(dir)]
		if !known {
			t.Errorf("%s: package %s is not on the floor plan of house_test.go: add it with the packages it may import",
				f.path, dir)
			continue
		}
		for _, spec := range f.ast.Imports {
			to := strings.Trim(spec.Path.Value, `"`)
			ours, isOurs := strings.CutPrefix(to, module+"/")
			switch {
			case isOurs:
				if !slices.Contains(here.may, onPlan(ours)) && !slices.Contains(here.may, "*") {
					t.Errorf("%s: %s may not import %s: %s", f.at(spec), dir, ours, reason(dir, ours))
				}
			case strings.Contains(strings.Split(to, "/")[0], "."):
				if !slices.ContainsFunc(here.third, func(m string) bool {
					return to == m || strings.HasPrefix(to, m+"/")
				}) {
					t.Errorf("%s: %s may not import %s: each library has its place; add it to the floor plan and say "+
						"why in docs/decisions", f.at(spec), dir, to)
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(plan)) {
		for _, to := range plan[dir].may {
			if _, known := plan[to]; !known && to != "*" {
				t.Errorf("the floor plan lets %s import %s, which is not on it", dir, to)
			}
		}
		if !seen[dir] {
			t.Errorf("the floor plan names %s, where there is no code", dir)
		}
	}
}

// unixTimes are the files that may use Unix times, with why. The difference of two is wrong where the clock was set
// between them, so that time limits pass at once, or not for hours.
var unixTimes = map[string]string{
	"internal/admin/history.go":           "points of the page stand at times of day",
	"internal/admin/stream.go":            "told to the page",
	"internal/metrics/certificates.go":    "a metric says it",
	"internal/metrics/config.go":          "a metric says it",
	"internal/metrics/state.go":           "a metric says it",
	"internal/peers/outbox.go":            "told to other routers",
	"internal/peers/hear.go":              "told by other routers",
	"internal/peers/keep.go":              "kept by Redis for other routers",
	"internal/proxy/identity/keys.go":     "the admin listener tells it",
	"internal/proxy/identity/tenant.go":   "the admin listener tells it",
	"internal/proxy/send/leg.go":          "whether it is still the same minute",
	"internal/proxy/transfers/numbers.go": "part of an id",
	"internal/state/state.go":             "kept in a file",
	"route/internal/backlog/queue.go":     "compared with those of other routers",
	"route/internal/backlog/share.go":     "all routers halve at the same time",
}

// TestUnixTimes: what lasts is measured by times or by package instant, and not by the clock, which may be set.
func TestUnixTimes(t *testing.T) {
	used := map[string]bool{}
	for _, f := range sources(t) {
		first, _, _ := strings.Cut(f.path, "/")
		tests := first == "sim" || first == "realtest" || plan[onPlan(path.Dir(f.path))].tests
		if f.test || f.module != "." || tests {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}, name.Sel.Name) {
				return true
			}
			if len(call.Args) > 0 { // of package time: Unix(1, 0) is a deadline that has passed
				if v, ok := call.Args[0].(*ast.BasicLit); ok && v.Value == "1" {
					return true
				}
			}
			if used[f.path] = true; unixTimes[f.path] == "" {
				t.Errorf("%s: measure what lasts by package instant, or say in unixTimes why it does no harm", f.at(n))
			}
			return true
		})
	}
	for file := range unixTimes {
		if !used[file] {
			t.Errorf("unixTimes names %s, which uses none", file)
		}
	}
}

// TestFloorsOfThePlan holds the plan itself to the two floors.
func TestFloorsOfThePlan(t *testing.T) {
	for dir, r := range plan {
		for _, to := range r.may {
			if isPure(dir) && !isPure(to) {
				t.Errorf("the floor plan lets the pure package %s import %s", dir, to)
			}
			if plan[to].tests && !r.tests && !strings.HasPrefix(dir, "cmd/") {
				t.Errorf("the floor plan lets %s import %s, which is for tests", dir, to)
			}
		}
	}
}

// impureRoots are the folders at the top whose packages may touch the world.
var impureRoots = []string{".", "*", "cmd", "internal", "realtest"}

// isPure is true of the packages of the top floor and of those inside them: the first element of the path decides.
func isPure(dir string) bool {
	root, _, _ := strings.Cut(dir, "/")
	return !slices.Contains(impureRoots, root)
}

func TestIsPure(t *testing.T) {
	for dir, want := range map[string]bool{
		"route": true, "route/internal/health": true, "route/internal/cache/events": true,
		".": false, "*": false, "cmd/warmpath": false, "internal/live": false, "internal/proxy/h1": false,
		"realtest": false,
	} {
		if got := isPure(dir); got != want {
			t.Errorf("isPure(%q) = %v, want %v", dir, got, want)
		}
	}
}

// TestNoAliases: outsiders embed the pure packages, and the page of a package shows no field of an alias.
func TestNoAliases(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.module != "." || !isPure(path.Dir(f.path)) {
			continue
		}
		for _, d := range f.ast.Decls {
			types, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range types.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Assign.IsValid() && s.Name.IsExported() {
					t.Errorf("%s: %s is an alias: define it here, or use the other package's name", f.at(s), s.Name)
				}
			}
		}
	}
}

// TestNoInit: nothing runs before anyone can hand anything in, but in the command.
func TestNoInit(t *testing.T) {
	for _, f := range sources(t) {
		if strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init runs before anyone can hand anything in: use a constructor", f.at(fn))
			}
		}
	}
}

// source is one Go file of the repository.
type source struct {
	path string // with slashes, relative to the root
	// folder of the go.mod it belongs to: ".", "bench", "release", "deploy/helm", "deploy/autoscaling" or
	// "realtest/clients", whose folders are modules
	module string
	test   bool
	fset   *token.FileSet
	ast    *ast.File
}

func (f *source) at(n ast.Node) string {
	return f.fset.Position(n.Pos()).String()
}

// sources reads every Go file of the repository, once. Reading every folder and file also makes go test notice a new
// one: it caches results by what a test has looked at.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var parseAll = sync.OnceValues(func() (all []*source, err error) {
	fset := token.NewFileSet()
	err = walk(func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f := &source{path: name, module: ".", test: strings.HasSuffix(name, "_test.go"), fset: fset}
		for _, own := range []string{"bench", "release", "deploy/helm", "deploy/autoscaling", "realtest/clients"} {
			if strings.HasPrefix(name, own+"/") {
				f.module = own
			}
		}
		f.ast, err = parser.ParseFile(fset, name, text, parser.ParseComments)
		all = append(all, f)
		return err
	})
	return all, err
})

// walk calls f with the path of each file that belongs to the project. Hidden folders hold tools and version control,
// testdata holds what others made.
func walk(f func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != "." && (base == "testdata" || base == "bin" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		return f(filepath.ToSlash(name))
	})
}
