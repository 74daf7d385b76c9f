package gate

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/guard"
)

// ErrBadPath rejects a path with dot segments.
var ErrBadPath = errors.New("the path has a segment that is \".\" or \"..\", encoded or not; send the path without it")

// foreignError means that a page of another site sends the request; it says how to allow that.
type foreignError struct {
	why  error
	name string // the unknown name
}

func (e *foreignError) Error() string {
	return e.why.Error() + " (" + strconv.Quote(e.name) + "); hosts in the router's configuration allows names"
}

func (e *foreignError) Unwrap() error { return e.why }

// Foreign is an error if a request comes under an unknown host name. names are the known ones.
func Foreign(names *guard.Names, r *http.Request) error {
	why := names.Check(r)
	if why == nil {
		return nil
	}
	name := r.Host
	if errors.Is(why, guard.ErrForeignOrigin) {
		name = r.Header.Get("Origin")
	}
	return &foreignError{why, name}
}

// decodings is how often a path is decoded in search of dot segments, since servers behind servers decode again.
const decodings = 4

// Climbs reports whether a decoded path has a dot segment as engines and proxies before them may read it: with either slash,
// with parameters, or encoded again. Such a path could leave the path of an endpoint's URL.
func Climbs(path string) bool {
	if !strings.Contains(path, "/.") && !strings.ContainsAny(path, `%\`) {
		return false
	}
	for range decodings {
		for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
			segment, _, _ = strings.Cut(segment, ";")
			if segment == "." || segment == ".." {
				return true
			}
		}
		decoded, err := url.PathUnescape(path)
		if err != nil || decoded == path {
			return false
		}
		path = decoded
	}
	return true
}
