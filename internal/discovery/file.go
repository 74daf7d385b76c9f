package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/filewatch"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/route"
)

const fileBytes = 16 << 20

// fileContent is the file's format: the same list as in the configuration.
type fileContent struct {
	Endpoints *[]EndpointConfig `yaml:"endpoints"`
}

// DecodeEndpoints reads an endpoints file: a YAML or JSON mapping with the single key endpoints. It reports every fault
// with file:line:column. A file without the key is a fault, since a half-written file must not remove all endpoints; a
// list without endpoints is "endpoints: []".
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

// Scalars allows a string in place of an endpoint; ParseEndpoint reads it.
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

// File watches a file of endpoints and publishes it as source "file". It logs and ignores a version with faults.
type File struct {
	path string
	keys Keys
	log  *slog.Logger

	seen    []byte // last content, valid or not
	keyed   bool   // it names files with keys, which change by themselves; else each version is decoded once
	said    string // the fault of the last content, logged once
	missing bool   // logged once
	last    []fleet.Endpoint
}

// NewFile reads the file. It fails if the file is missing or has faults, since there is no earlier version to keep.
func NewFile(path string, keys Keys, log *slog.Logger) (*File, error) {
	f := &File{path: path, keys: keys, log: log}
	data, err := wholefile.Read(path, fileBytes)
	if err != nil {
		return nil, err
	}
	if f.last, err = f.decode(data); err != nil {
		return nil, err
	}
	f.seen = data
	return f, nil
}

func (f *File) decode(data []byte) ([]fleet.Endpoint, error) {
	f.keyed = false
	return DecodeEndpoints(f.path, data, f.keys.noting(&f.keyed))
}

// Run publishes the version that NewFile read and then each valid one, until ctx ends.
func (f *File) Run(ctx context.Context, publish Publish) {
	publish(route.Declared{Source: f.Source(), Endpoints: slices.Clone(f.last)})
	filewatch.Run(ctx, []string{f.path}, f.log, func() { f.reload(publish) })
}

// Source is the name of the source.
func (f *File) Source() string { return "file" }

// Same is false: NewFile has read the file, with the keys that it names, which is all that there is to know.
func (f *File) Same(Runner) bool { return false }

func (f *File) reload(publish Publish) {
	data, err := wholefile.Read(f.path, fileBytes)
	if err != nil {
		if !f.missing {
			f.log.Error("the endpoints file cannot be read; keeping the last valid version",
				"file", f.path, "kept", len(f.last), "error", err)
		}
		f.missing = true
		return
	}
	f.missing = false
	same := bytes.Equal(data, f.seen)
	if same && !f.keyed {
		return
	}
	f.seen = data
	endpoints, err := f.decode(data)
	if err != nil {
		if !same || err.Error() != f.said {
			f.log.Error("the endpoints file has faults; keeping the last valid version",
				"file", f.path, "kept", len(f.last), "error", err)
		}
		f.said = err.Error()
		return
	}
	f.said = ""
	if Equal(endpoints, f.last) {
		return
	}
	f.log.Info("endpoints changed", "source", "file", "file", f.path, "endpoints", len(endpoints))
	f.last = endpoints
	publish(route.Declared{Source: f.Source(), Endpoints: slices.Clone(endpoints)})
}
