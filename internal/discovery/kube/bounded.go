package kube

import (
	"fmt"
	"io"
	"net/http"
	"strings"
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
