package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Errors of the admin source, for callers that map them to an HTTP status.
var (
	ErrDuplicate   = errors.New("the name is taken")
	ErrNotDeclared = errors.New("no such endpoint was added at run time")
)

// Static publishes the endpoints of flags and configuration, once.
func Static(source string, endpoints []fleet.Endpoint, publish Publish) {
	if len(endpoints) > 0 {
		publish(route.Declared{Source: source, Endpoints: slices.Clone(endpoints)})
	}
}

// Admin has the endpoints that are added and removed at run time. It is safe for concurrent use.
type Admin struct {
	source  string
	publish Publish
	taken   func(name string) bool // reports whether another source declares the name

	mu        sync.Mutex // held while publishing, so that snapshots arrive in order
	endpoints []fleet.Endpoint
}

// NewAdmin makes an empty source. taken reports whether a name is in use anywhere in the fleet; nil means never.
func NewAdmin(source string, publish Publish, taken func(name string) bool) *Admin {
	if taken == nil {
		taken = func(string) bool { return false }
	}
	return &Admin{source: source, publish: publish, taken: taken}
}

// Add declares endpoints, all or none. The error wraps ErrDuplicate if a name is in use.
func (a *Admin) Add(endpoints ...fleet.Endpoint) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.endpoints)+len(endpoints) > MaxEndpoints {
		return fmt.Errorf("discovery: more than %d endpoints", MaxEndpoints)
	}
	next := slices.Clone(a.endpoints)
	for _, e := range endpoints {
		if find(next, e.Name) >= 0 || a.taken(e.Name) {
			return fmt.Errorf("discovery: endpoint %q: %w", e.Name, ErrDuplicate)
		}
		next = append(next, e)
	}
	if len(endpoints) > 0 {
		a.endpoints = next
		a.publishAll()
	}
	return nil
}

// Remove removes the endpoint of that name, or all ranks or slots of the engine of that name. The error wraps
// ErrNotDeclared if Add declared neither.
func (a *Admin) Remove(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(a.endpoints), func(e fleet.Endpoint) bool {
		return e.Answers(name)
	})
	if len(next) == len(a.endpoints) {
		return fmt.Errorf("discovery: endpoint %q: %w", name, ErrNotDeclared)
	}
	a.endpoints = next
	a.publishAll()
	return nil
}

func (a *Admin) publishAll() {
	a.publish(route.Declared{Source: a.source, Endpoints: slices.Clone(a.endpoints)})
}

func find(list []fleet.Endpoint, name string) int {
	return slices.IndexFunc(list, func(e fleet.Endpoint) bool { return e.Name == name })
}

// Runner is a source that watches for changes: it publishes until ctx ends.
type Runner interface {
	// Source is the name of the source.
	Source() string
	Run(ctx context.Context, publish Publish)
	// Same reports whether another one that was made before finds the same as this one would, and so may go on in its
	// place: what it knows of its endpoints, such as which have been ready, stays.
	Same(before Runner) bool
}

// Successor is a Runner that knows something of its endpoints which those who are asked do not tell.
type Successor interface {
	Runner
	// Succeed takes over what one of the same name knew, which has other settings and has ended. It is called before
	// Run.
	Succeed(before Runner)
}

var (
	_ Runner = (*File)(nil)
	_ Runner = (*DNS)(nil)
)
