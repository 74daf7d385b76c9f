package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/route"
)

// How the file is watched.
const (
	quiet     = 100 * time.Millisecond // wait so long after a change for the writer to finish
	longest   = time.Second            // but never longer than this
	recheck   = 15 * time.Second       // read anyway: network file systems and links to elsewhere send no events
	fileBytes = 16 << 20
)

// fileContent is the file's format: the same list as in the configuration.
type fileContent struct {
	Endpoints *[]EndpointConfig `yaml:"endpoints"`
}

// DecodeEndpoints reads an endpoints file: a YAML or JSON mapping with the one key endpoints. It reports every fault with
// file:line:column. A file without the key is a fault, since a half-written file must not empty the fleet; an empty fleet
// is "endpoints: []".
func DecodeEndpoints(file string, data []byte, keys Keys) ([]fleet.Endpoint, error) {
	var content fileContent
	places, err := strictyaml.Decode(file, data, &content, strictyaml.Options{Scalars: Scalars()})
	if err == nil && content.Endpoints == nil {
		err = fmt.Errorf("%s:1: no endpoints; the file needs a list under the key \"endpoints\", which may be []", file)
	}
	if err != nil {
		return nil, err
	}
	out, err := Endpoints(*content.Endpoints, keys)
	if err != nil {
		return nil, placed(places, err)
	}
	return out, nil
}

// Scalars lets a plain text stand where an endpoint is wanted, as ParseEndpoint reads it.
func Scalars() map[string]strictyaml.Scalar {
	return map[string]strictyaml.Scalar{
		"discovery.EndpointConfig": func(into any, text string) error {
			c, err := ParseEndpoint(text)
			*into.(*EndpointConfig) = c
			return err
		},
	}
}

func placed(places *strictyaml.Places, err error) error {
	var faults []error
	for _, e := range strictyaml.Flatten(err) {
		field := ""
		if fe := (*FieldError)(nil); errors.As(e, &fe) {
			field, e = fe.Field, fe.Err
			e = fmt.Errorf("endpoints%s: %w", field, e)
		}
		faults = append(faults, places.Fault("endpoints"+field, e))
	}
	return errors.Join(faults...)
}

// File follows a file of endpoints and publishes it as source "file". A version with faults is logged and ignored.
type File struct {
	path string
	keys Keys
	log  *slog.Logger

	seen    []byte // content last read, good or bad: each version is judged once
	missing bool   // said once
	last    []fleet.Endpoint
}

// NewFile reads the file; a file that is missing or has faults is an error, since at the start nothing older stands in.
func NewFile(path string, keys Keys, log *slog.Logger) (*File, error) {
	f := &File{path: path, keys: keys, log: log}
	data, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	if f.last, err = DecodeEndpoints(path, data, keys); err != nil {
		return nil, err
	}
	f.seen = data
	return f, nil
}

// Run publishes what NewFile read and then each good version, until ctx ends. It watches the directory, since editors
// and Kubernetes replace files (a ConfigMap swaps the symbolic link ..data) instead of writing them.
func (f *File) Run(ctx context.Context, publish Publish) {
	publish(route.Declared{Source: "file", Endpoints: slices.Clone(f.last)})
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		err = watcher.Add(filepath.Dir(f.path))
	}
	if err != nil {
		f.log.Warn("the directory cannot be watched; the file is read regularly instead", "file", f.path, "every", recheck, "error", err)
		f.follow(ctx, nil, nil, publish)
		return
	}
	f.follow(ctx, watcher.Events, watcher.Errors, publish)
}

// follow reads the file once events have been quiet, and regularly.
func (f *File) follow(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, publish Publish) {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	settle := time.NewTimer(0) // the file may have changed between NewFile and the watch
	defer settle.Stop()
	var first time.Time // of the events not yet acted on
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if first.IsZero() {
				first = time.Now()
			}
			settle.Reset(min(quiet, max(0, longest-time.Since(first))))
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			f.log.Warn("watching the directory", "file", f.path, "error", err)
			settle.Reset(quiet) // events may have been lost
		case <-settle.C:
			first = time.Time{}
			f.reload(publish)
		case <-tick.C:
			f.reload(publish)
		}
	}
}

func (f *File) reload(publish Publish) {
	data, err := readBounded(f.path)
	if err != nil {
		if !f.missing {
			f.log.Error("the endpoints file cannot be read; the last good version stays", "file", f.path, "kept", len(f.last), "error", err)
		}
		f.missing = true
		return
	}
	f.missing = false
	if bytes.Equal(data, f.seen) {
		return
	}
	f.seen = data
	endpoints, err := DecodeEndpoints(f.path, data, f.keys)
	if err != nil {
		f.log.Error("the endpoints file has faults; the last good version stays", "file", f.path, "kept", len(f.last), "error", err)
		return
	}
	if equal(endpoints, f.last) {
		return
	}
	f.log.Info("endpoints changed", "source", "file", "file", f.path, "endpoints", len(endpoints))
	f.last = endpoints
	publish(route.Declared{Source: "file", Endpoints: slices.Clone(endpoints)})
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, fileBytes+1))
	if err == nil && len(data) > fileBytes {
		err = fmt.Errorf("%s is larger than %d MiB", path, fileBytes>>20)
	}
	return data, err
}
