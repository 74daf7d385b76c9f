package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// apiServer lists and watches objects as a Kubernetes API server does: resource versions, selectors, initial events in
// a watch, 410 for versions that are too old.
type apiServer struct {
	*httptest.Server
	mu       sync.Mutex
	version  int
	oldest   int                       // watches from before it get 410
	objects  map[string]map[string]any // by "resource/name"
	kinds    map[string]bool           // resources that exist
	watchers map[int]*watcher
	changes  []change // all, so that a watch begins where its client is
	refuse   int      // requests are answered with this status while it is not 0
	endless  bool     // a watch has one event, without an end
	listing  bool     // initial events in a watch are not supported: clients must list
	lists    int      // how often all was asked for
	next     int
}

type watcher struct {
	resource string
	match    func(map[string]any) bool
	events   chan event
	gone     chan struct{}
}

// change is what happened to an object: old is nil where it is new, now is nil where it has gone.
type change struct {
	version  int
	resource string
	old, now map[string]any
}

type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

func newAPIServer(t *testing.T, kinds ...string) *apiServer {
	s := &apiServer{
		objects: map[string]map[string]any{}, kinds: map[string]bool{}, watchers: map[int]*watcher{}, version: 1,
	}
	for _, k := range kinds {
		s.kinds[k] = true
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.breakWatches()
		s.Close()
	})
	return s
}

// put stores an object; an object is told to the watches that it matches, and as deleted to those that it no longer
// matches.
func (s *apiServer) put(resource string, o map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	meta := o["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.Itoa(s.version)
	key := resource + "/" + meta["name"].(string)
	s.changed(change{s.version, resource, s.objects[key], o})
	s.objects[key] = o
}

// changed keeps a change and tells the watches of it. The lock is held.
func (s *apiServer) changed(c change) {
	s.changes = append(s.changes, c)
	for _, w := range s.watchers {
		w.hear(c)
	}
}

func (w *watcher) hear(c change) {
	was, is := c.old != nil && w.match(c.old), c.now != nil && w.match(c.now)
	switch {
	case w.resource != c.resource:
	case is && was:
		w.events <- event{"MODIFIED", c.now}
	case is:
		w.events <- event{"ADDED", c.now}
	case was:
		w.events <- event{"DELETED", c.old}
	}
}

func (s *apiServer) remove(resource, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := s.objects[resource+"/"+name]
	o["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
	s.changed(change{s.version, resource, o, nil})
	delete(s.objects, resource+"/"+name)
}

// breakWatches ends all watches, as a restart of the server does.
func (s *apiServer) breakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.watchers {
		close(w.gone)
		delete(s.watchers, id)
	}
}

// answer makes all requests fail with a status, or with 0 no longer.
func (s *apiServer) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = status
}

// forget makes versions so far too old to be watched from.
func (s *apiServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest = s.version
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// /api/v1/namespaces/NS/pods, /apis/GROUP/VERSION/namespaces/NS/RESOURCE
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource := parts[len(parts)-1]
	group := strings.Join(parts[:slices.Index(parts, "namespaces")], "/")
	full := group + "/" + resource
	q := r.URL.Query()
	s.mu.Lock()
	refuse, known := s.refuse, s.kinds[full]
	s.mu.Unlock()
	if refuse != 0 {
		status(w, refuse)
		return
	}
	if !known {
		status(w, http.StatusNotFound)
		return
	}
	only, _ := labels.Parse(q.Get("labelSelector"))
	name, named := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=")
	match := func(o map[string]any) bool {
		meta := o["metadata"].(map[string]any)
		set := labels.Set{}
		if l, ok := meta["labels"].(map[string]any); ok {
			for k, v := range l {
				set[k] = v.(string)
			}
		}
		return only.Matches(set) && (!named || meta["name"] == name)
	}
	if q.Get("watch") == "" {
		s.list(w, group, resource, match)
		return
	}
	s.watch(w, r, resource, match)
}

func status(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	reason := map[int]string{
		401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired", 422: "Invalid",
		503: "ServiceUnavailable",
	}[code]
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"status %d"}`,
		reason, code, code)
}

// matching are the objects of a resource, by name. The lock is held.
func (s *apiServer) matching(resource string, match func(map[string]any) bool) (out []any) {
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, resource+"/") && match(s.objects[key]) {
			out = append(out, s.objects[key])
		}
	}
	return out
}

func (s *apiServer) list(w http.ResponseWriter, group, resource string, match func(map[string]any) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	w.Header().Set("Content-Type", "application/json")
	items := s.matching(resource, match)
	if items == nil {
		items = []any{}
	}
	version := strings.TrimPrefix(strings.TrimPrefix(group, "apis/"), "api/")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "List", "apiVersion": version, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)},
		"items": items,
	})
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, resource string, match func(map[string]any) bool) {
	q := r.URL.Query()
	s.mu.Lock()
	initial := q.Get("sendInitialEvents") == "true"
	if initial && s.listing {
		s.mu.Unlock()
		status(w, http.StatusUnprocessableEntity)
		return
	}
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	if !initial && from < s.oldest {
		s.mu.Unlock()
		status(w, http.StatusGone)
		return
	}
	own := &watcher{resource: resource, match: match, events: make(chan event, 100_000), gone: make(chan struct{})}
	if initial {
		s.lists++
		var last map[string]any
		for _, o := range s.matching(resource, match) {
			last = o.(map[string]any)
			own.events <- event{"ADDED", last}
		}
		kind, version := "Object", "v1"
		if last != nil {
			kind, version = last["kind"].(string), last["apiVersion"].(string)
		}
		own.events <- event{"BOOKMARK", map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{
			"resourceVersion": strconv.Itoa(s.version), "annotations": map[string]any{
				"k8s.io/initial-events-end": "true",
			},
		}}}
	}
	for _, c := range s.changes {
		if !initial && c.version > from {
			own.hear(c)
		}
	}
	s.next++
	id := s.next
	s.watchers[id] = own
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, id)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher)
	flush.Flush()
	s.mu.Lock()
	endless := s.endless
	s.mu.Unlock()
	for begun := false; endless; begun = true {
		line := strings.Repeat("a", 1<<20)
		if !begun {
			line = `{"type":"ADDED","object":"` + line
		}
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-own.gone:
			return
		case e := <-own.events:
			s.mu.Lock()
			line, err := json.Marshal(e)
			s.mu.Unlock()
			if err != nil {
				panic(err)
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return
			}
			flush.Flush()
		}
	}
}
