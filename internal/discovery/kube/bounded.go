package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/warmpath/warmpath/internal/discovery"
)

// client-go keeps a list, and each event of a watch, whole before it decodes it, however long it is.
const (
	mostEvent = 16 << 20  // bytes; etcd's largest object has 1.5 MiB by default
	mostList  = 256 << 20 // bytes; 10,000 pods have about 150 MB
)

// bounded is a transport whose answers end with an error where one JSON value is longer than client-go may keep.
type bounded struct {
	http.RoundTripper
	told func(resource string, err error)
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	v := &values{ReadCloser: res.Body, most: mostList, told: func(err error) {
		b.told(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], err)
	}}
	if r.URL.Query().Get("watch") != "" {
		v.most = mostEvent
	}
	res.Body = v
	return res, nil
}

// values reads a row of JSON values.
type values struct {
	io.ReadCloser
	most int
	told func(error)

	size, depth     int // of the value so far
	quoted, escaped bool
	err             error
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

// mostObjects is how many objects of a kind a follower keeps: as many engines as a source may have, and as many pods
// that are not ready or have ended.
const mostObjects = 2 * discovery.MaxEndpoints

// census counts the objects that a follower keeps, so that a list or a watch that has too many ends with an error. What
// is listed then takes their place.
type census struct {
	most int
	n    atomic.Int64
}

func (c *census) tooMany() error {
	return fmt.Errorf("the API server has more than %d objects of this kind here", c.most)
}

// listed counts the objects of a page.
func (c *census) listed(o metav1.ListOptions, n int) error {
	if o.Continue == "" {
		c.n.Store(0)
	}
	if c.n.Add(int64(n)) > int64(c.most) {
		return c.tooMany()
	}
	return nil
}

// watched counts those that come and go in a watch, which may begin with all that there are.
func (c *census) watched(o metav1.ListOptions, w watch.Interface, told func(error)) watch.Interface {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		c.n.Store(0)
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		switch e.Type {
		case watch.Deleted:
			c.n.Add(-1)
		case watch.Added:
			if c.n.Add(1) > int64(c.most) {
				told(c.tooMany())
				return watch.Event{Type: watch.Error, Object: &metav1.Status{
					Status: metav1.StatusFailure, Message: c.tooMany().Error(),
				}}, true
			}
		case watch.Modified, watch.Bookmark, watch.Error:
		}
		return e, true
	})
}
