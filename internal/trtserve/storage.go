package trtserve

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// storage is the key-value store over HTTP that an orchestrator runs for its workers (cluster_storage.py). Every
// failure is a 400.
type storage struct {
	now      func() time.Time
	inactive time.Duration
	changed  chan struct{} // receives after keys were added or removed
	may      mayStore

	mu   sync.Mutex // guards what follows
	keys map[string]entry
	size int // bytes of all keys and values
}

// mayStore reports whether a caller may store a value under a key, or change the one that is there. If not, it has
// answered the request.
type mayStore func(w http.ResponseWriter, r *http.Request, key, value string) bool

type entry struct {
	value   string
	expires time.Time // zero: never
}

// The bounds of the store.
const (
	mostKeys  = 20_000
	mostValue = 64 << 10 // bytes of a key and its value
	mostBytes = 16 << 20 // of all: a worker takes some 200
)

func newStorage(now func() time.Time, inactive time.Duration) *storage {
	return &storage{now: now, inactive: inactive, changed: make(chan struct{}, 1), keys: map[string]entry{}}
}

// isStorage reports whether a path is one of routes.
func isStorage(path string) bool {
	switch path {
	case "/set", "/get", "/delete", "/expire", "/get_prefix":
		return true
	}
	return false
}

func (s *storage) routes(m *http.ServeMux, may mayStore) {
	s.may = may
	m.HandleFunc("POST /set", s.set)
	m.HandleFunc("GET /get", s.get)
	m.HandleFunc("GET /expire", s.expire)
	m.HandleFunc("DELETE /delete", s.remove)
	m.HandleFunc("GET /get_prefix", s.getPrefix)
}

func answer(w http.ResponseWriter, yes bool, v any) {
	if !yes {
		writeJSON(w, http.StatusBadRequest, map[string]any{"result": v})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"result": v})
}

func (s *storage) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// set stores a value. ttl is in seconds; expire_time is its older name, negative for none.
func (s *storage) set(w http.ResponseWriter, r *http.Request) {
	v := struct {
		Key       string   `json:"key"`
		Value     string   `json:"value"`
		TTL       *float64 `json:"ttl"`
		Expire    float64  `json:"expire_time"`
		Overwrite bool     `json:"overwrite_if_exists"`
	}{Expire: -1}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostValue)).Decode(&v); err != nil || v.Key == "" {
		answer(w, false, false)
		return
	}
	if !s.may(w, r, v.Key, v.Value) || !s.mayChange(w, r, v.Key) {
		return
	}
	ttl := v.Expire
	if v.TTL != nil {
		ttl = *v.TTL
	}
	s.mu.Lock()
	now := s.now()
	s.sweep(now)
	old, exists := s.keys[v.Key]
	size := s.size + len(v.Value) - len(old.value)
	if !exists {
		size += len(v.Key)
	}
	ok := (!exists || v.Overwrite) && (exists || len(s.keys) < mostKeys) && size <= mostBytes
	if ok {
		s.keys[v.Key], s.size = entry{v.Value, s.until(now, ttl)}, size
	}
	s.mu.Unlock()
	if ok {
		s.notify()
	}
	answer(w, ok, ok)
}

// until returns when a key expires. A key without a TTL gets the one for inactive workers.
func (s *storage) until(now time.Time, seconds float64) time.Time {
	if !(seconds > 0) || seconds > 1e9 {
		return now.Add(s.inactive)
	}
	return now.Add(time.Duration(seconds * float64(time.Second)))
}

// sweep removes expired keys. The caller holds mu.
func (s *storage) sweep(now time.Time) (gone bool) {
	for k, e := range s.keys {
		if !e.expires.IsZero() && !now.Before(e.expires) {
			s.forget(k)
			gone = true
		}
	}
	return gone
}

// forget removes a key. The caller holds mu.
func (s *storage) forget(key string) {
	if e, ok := s.keys[key]; ok {
		s.size -= len(key) + len(e.value)
		delete(s.keys, key)
	}
}

// mayChange reports whether the caller may change what is stored under a key: not the worker of another address. If
// not, it has answered the request.
func (s *storage) mayChange(w http.ResponseWriter, r *http.Request, key string) bool {
	s.mu.Lock()
	e, ok := s.find(key)
	s.mu.Unlock()
	return !ok || s.may(w, r, key, e.value)
}

// find returns the value of a key. The caller holds mu.
func (s *storage) find(key string) (entry, bool) {
	e, ok := s.keys[key]
	if ok && !e.expires.IsZero() && !s.now().Before(e.expires) {
		return entry{}, false
	}
	return e, ok
}

func (s *storage) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	e, ok := s.find(r.URL.Query().Get("key"))
	s.mu.Unlock()
	if !ok || e.value == "" {
		answer(w, false, nil)
		return
	}
	answer(w, true, e.value)
}

func (s *storage) expire(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	ttl, err := strconv.ParseFloat(r.URL.Query().Get("ttl"), 64)
	if !s.mayChange(w, r, key) {
		return
	}
	s.mu.Lock()
	e, ok := s.find(key)
	if ok = ok && err == nil; ok {
		e.expires = s.until(s.now(), ttl)
		s.keys[key] = e
	}
	s.mu.Unlock()
	answer(w, ok, ok)
}

func (s *storage) remove(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if !s.mayChange(w, r, key) {
		return
	}
	s.mu.Lock()
	_, ok := s.find(key)
	s.forget(key)
	s.mu.Unlock()
	if ok {
		s.notify()
	}
	answer(w, ok, ok)
}

// getPrefix answers with the keys that have a prefix; with none, it answers 400.
func (s *storage) getPrefix(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	found := s.withPrefix(q.Get("key_prefix"))
	if only, _ := strconv.ParseBool(q.Get("keys_only")); only {
		answer(w, len(found) > 0, slices.Sorted(maps.Keys(found)))
		return
	}
	answer(w, len(found) > 0, found)
}

func (s *storage) withPrefix(prefix string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]string{}
	for k := range s.keys {
		if e, ok := s.find(k); ok && strings.HasPrefix(k, prefix) {
			found[k] = e.value
		}
	}
	return found
}
