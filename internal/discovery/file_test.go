package discovery_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDecodeEndpoints(t *testing.T) {
	for _, text := range []string{
		"endpoints:\n- http://a:1\n- url: http://b:2\n  name: b\n",
		`{"endpoints": ["http://a:1", {"url": "http://b:2", "name": "b"}]}`,
	} {
		got, err := discovery.DecodeEndpoints("e.yaml", []byte(text), discovery.None())
		if err != nil || !slices.Equal(names(route.Declared{Endpoints: got}), []string{"a:1", "b"}) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":             `e.yaml:1: no endpoints; the file needs a list under the key "endpoints", which may be []`,
		"endpoints:":   `e.yaml:1: no endpoints; the file needs a list under the key "endpoints", which may be []`,
		"endpoint: []": `e.yaml:1:1: unknown key "endpoint"; did you mean "endpoints"?`,
		"endpoints:\n- ftp://x\n": `e.yaml:2:3: endpoints[0]: "ftp://x" must start with http://, https:// ` +
			`or unix:///`,
		"endpoints:\n- a:1\n- url: a:1": `e.yaml:3:3: endpoints[1].url: is the same address as endpoints[0] ` +
			`(http://a:1)`,
	} {
		_, err := discovery.DecodeEndpoints("e.yaml", []byte(text), discovery.None())
		if err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
	if got, err := discovery.DecodeEndpoints("e.yaml", []byte("endpoints: []"), discovery.None()); err != nil ||
		len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
}

// journal is a log that tests can wait for.
type journal struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case j.wrote <- struct{}{}:
	default:
	}
	return j.text.Write(p)
}

func (j *journal) waitFor(t *testing.T, want string) {
	t.Helper()
	patience := time.After(5 * time.Minute)
	for {
		j.mu.Lock()
		found := strings.Contains(j.text.String(), want)
		j.mu.Unlock()
		if found {
			return
		}
		select {
		case <-j.wrote:
		case <-patience:
			t.Fatalf("the log never said %q:\n%s", want, j.text.String())
		}
	}
}

// watched runs a File source over path and returns its snapshots.
func watched(t *testing.T, path string) (<-chan []string, *journal) {
	t.Helper()
	j := &journal{wrote: make(chan struct{}, 1)}
	f, err := discovery.NewFile(path, discovery.None(), slog.New(slog.NewTextHandler(j, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	snapshots := make(chan []string, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx, func(d route.Declared) { snapshots <- names(d) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return snapshots, j
}

func expect(t *testing.T, snapshots <-chan []string, want ...string) {
	t.Helper()
	select {
	case got := <-snapshots:
		if !slices.Equal(got, want) {
			t.Fatalf("published %v, want %v", got, want)
		}
	case <-time.After(5 * time.Minute):
		t.Fatalf("%v was not published", want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileFollowsWritesAndRenames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "endpoints.yaml")
	write(t, path, "endpoints: [a:1]")
	snapshots, j := watched(t, path)
	expect(t, snapshots, "a:1")

	write(t, path, "endpoints: [a:1, b:1]")
	expect(t, snapshots, "a:1", "b:1")

	write(t, path, "endpoints:\n- a:1\n- {ulr: c:1}\n")
	j.waitFor(t, `endpoints.yaml:3:4: unknown key \"ulr\"; did you mean \"url\"?`)

	// An editor writes beside the file and renames. The version with faults above was never published.
	write(t, path+".new", "endpoints: [c:1]")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	expect(t, snapshots, "c:1")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	j.waitFor(t, "cannot be read; keeping the last valid version")
	write(t, path, "endpoints: []")
	expect(t, snapshots)
}

// Kubernetes updates a ConfigMap by renaming a new symbolic link over ..data; the file's own link never changes.
func TestFileFollowsConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(n, text string) {
		if err := os.Mkdir(filepath.Join(dir, n), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, n, "endpoints.yaml"), text)
		if err := os.Symlink(n, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "endpoints: [a:1]")
	path := filepath.Join(dir, "endpoints.yaml")
	if err := os.Symlink("..data/endpoints.yaml", path); err != nil {
		t.Fatal(err)
	}
	snapshots, _ := watched(t, path)
	expect(t, snapshots, "a:1")
	version("..2", "endpoints: [b:1]")
	expect(t, snapshots, "b:1")
}

// TestFileFollowsKeys: a key in a file of its own is followed as one in the configuration is, also where the list of
// endpoints stays as it is; while it is missing the last key stays.
func TestFileFollowsKeys(t *testing.T) {
	dir := t.TempDir()
	path, key := filepath.Join(dir, "endpoints.yaml"), filepath.Join(dir, "key")
	write(t, path, "endpoints: [{url: a:1, api_key_file: "+key+"}]")
	write(t, key, "first")
	j := &journal{wrote: make(chan struct{}, 1)}
	f, err := discovery.NewFile(path, discovery.Keys{}, slog.New(slog.NewTextHandler(j, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	keys, done := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx, func(d route.Declared) { keys <- d.Endpoints[0].APIKey })
	}()
	defer func() { cancel(); <-done }()
	expectKey := func(want string) {
		t.Helper()
		select {
		case got := <-keys:
			if got != want {
				t.Fatalf("the key is %q, want %q", got, want)
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("the key did not become %q", want)
		}
	}
	expectKey("first")
	write(t, key+".next", "second\n")
	if err := os.Rename(key+".next", key); err != nil {
		t.Fatal(err)
	}
	expectKey("second")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	j.waitFor(t, "keeping the last valid version")
	write(t, key, "third")
	expectKey("third")
}

func TestNewFileFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.yaml")
	if _, err := discovery.NewFile(path, discovery.None(), silent); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	write(t, path, "endpoints: {}")
	if _, err := discovery.NewFile(path, discovery.None(), silent); err == nil ||
		!strings.Contains(err.Error(), "e.yaml:1:12: endpoints: want a list") {
		t.Errorf("a file with faults: %v", err)
	}
}
