package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/warmpath/warmpath/internal/discovery"
)

// client-go keeps a list, and each event of a watch, whole before it decodes it, however long it is.
const (
	mostEvent = 16 << 20  // bytes; etcd's largest object has 1.5 MiB by default
	mostList  = 256 << 20 // bytes; 10,000 pods have about 150 MB
)

// Nor does it end an exchange with a server, or a proxy before it, that hangs: it would wait for as long as the
// connection lives. API servers answer within a minute (--request-timeout), and say so where they cannot.
const (
	headWithin = 90 * time.Second
	listWithin = 5 * time.Minute
	lateBy     = time.Minute // beyond the time that a watch is asked to last
)

// bounded is a transport whose answers end with an error where one JSON value is longer than client-go may keep, or
// where they take longer than they may.
type bounded struct {
	http.RoundTripper
	told func(resource string, err error)
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	v := &values{most: mostList, told: func(err error) {
		b.told(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], err)
	}}
	within, asked := listWithin, r.URL.Query()
	if asked.Get("watch") != "" {
		seconds, _ := strconv.Atoi(asked.Get("timeoutSeconds")) // client-go always says it
		v.most, within = mostEvent, time.Duration(seconds)*time.Second+lateBy
	}
	ctx, end := context.WithCancel(r.Context())
	answered := min(headWithin, within)
	late := time.AfterFunc(answered, end)
	began := time.Now()
	res, err := b.RoundTripper.RoundTrip(r.WithContext(ctx))
	if !late.Stop() && r.Context().Err() == nil {
		if err == nil {
			_ = res.Body.Close()
		}
		return nil, fmt.Errorf("the API server has not answered for %v", answered)
	}
	if err != nil {
		end()
		return nil, err
	}
	// client-go waits for as long as the server says, without a word; its own pauses grow to half a minute
	res.Header.Del("Retry-After")
	over := time.AfterFunc(within-time.Since(began), end)
	v.ReadCloser, v.end = res.Body, func() { over.Stop(); end() }
	res.Body = v
	return res, nil
}

// values reads a row of JSON values.
type values struct {
	io.ReadCloser
	most int
	told func(error)
	end  func() // of the exchange

	size, depth     int // of the value so far
	quoted, escaped bool
	err             error
}

// Close implements io.Closer.
func (v *values) Close() error {
	defer v.end()
	return v.ReadCloser.Close()
}

// Read implements io.Reader.
func (v *values) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.ReadCloser.Read(p)
	for _, b := range p[:n] {
		v.size++
		switch {
		case v.escaped:
			v.escaped = false
		case v.quoted:
			v.escaped, v.quoted = b == '\\', b != '"'
		case b == '"':
			v.quoted = true
		case b == '{', b == '[':
			v.depth++
		case b == '}', b == ']':
			if v.depth--; v.depth <= 0 {
				v.size, v.depth = 0, 0
			}
		}
		if v.size > v.most {
			v.err = fmt.Errorf("the API server sends more than %d MiB at once", v.most>>20)
			v.told(v.err)
			return 0, v.err
		}
	}
	return n, err
}

// What a follower keeps of the objects of a kind: as many as a source may have engines, and as many pods that are not
// ready or have ended. Labels and annotations may be long, so the JSON of what is used of all of them is bounded too.
const (
	mostObjects = 2 * discovery.MaxEndpoints
	mostKept    = 256 << 20
)

// bounds are the most objects, and bytes of them, that a follower keeps.
type bounds struct{ objects, bytes int }

// census counts the objects that a follower keeps, so that a list or a watch that has too many ends with an error. What
// is listed then takes their place.
type census struct {
	most bounds
	slim cache.TransformFunc

	mu    sync.Mutex
	sizes map[string]int // by namespace and name
	bytes int
}

// begin forgets all: what comes next takes its place.
func (c *census) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes, c.bytes = map[string]int{}, 0
}

// keeps counts an object, in the place of an earlier version of it.
func (c *census) keeps(o metav1.Object, small any) error {
	text, err := json.Marshal(small)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := o.GetNamespace() + "/" + o.GetName()
	c.bytes += len(text) - c.sizes[key]
	c.sizes[key] = len(text)
	switch {
	case len(c.sizes) > c.most.objects:
		return fmt.Errorf("the API server has more than %d objects of this kind here", c.most.objects)
	case c.bytes > c.most.bytes:
		return fmt.Errorf("objects of this kind here take more than %d MiB: their labels and annotations are long",
			c.most.bytes>>20)
	}
	return nil
}

// drops counts an object no more.
func (c *census) drops(o metav1.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := o.GetNamespace() + "/" + o.GetName()
	c.bytes -= c.sizes[key]
	delete(c.sizes, key)
}

// listed leaves of the objects of a page what is used, and counts them: client-go keeps all pages of a list until the
// last has come, and an object that is decoded takes 18 times its JSON.
func (c *census) listed(o metav1.ListOptions, list *unstructured.UnstructuredList) error {
	if o.Continue == "" {
		c.begin()
	}
	for i := range list.Items {
		small, err := c.slim(&list.Items[i])
		if err != nil {
			return err
		}
		if err := c.keeps(&list.Items[i], small); err != nil {
			return err
		}
		if list.Items[i].Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(small); err != nil {
			return err
		}
	}
	return nil
}

// watched counts those that come, change and go in a watch, which may begin with all that there are.
func (c *census) watched(o metav1.ListOptions, w watch.Interface, told func(error)) watch.Interface {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		c.begin()
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		object, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return e, true
		}
		switch e.Type {
		case watch.Deleted:
			c.drops(object)
		case watch.Added, watch.Modified:
			small, err := c.slim(object)
			if err != nil {
				return e, true // it is not kept
			}
			if err := c.keeps(object, small); err != nil {
				told(err)
				return watch.Event{Type: watch.Error, Object: &metav1.Status{
					Status: metav1.StatusFailure, Message: err.Error(),
				}}, true
			}
		case watch.Bookmark, watch.Error:
		}
		return e, true
	})
}
