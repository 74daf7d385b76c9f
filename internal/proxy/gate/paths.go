package gate

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/guard"
)

// ErrBadPath refuses a path that climbs.
var ErrBadPath = errors.New("the path has a segment that is \".\" or \"..\", encoded or not; send the path that is meant")

// foreignError says that a page of another site calls, and what would let it.
type foreignError struct {
	why  error
	name string // that was not known
}

func (e *foreignError) Error() string {
	return e.why.Error() + " (" + strconv.Quote(e.name) + "); hosts in the router's configuration allows names"
}

func (e *foreignError) Unwrap() error { return e.why }

// Foreign is why a request comes under a foreign name, nil when it does not. names are those that are known.
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

// decodings is how often a path is decoded to look for dots in it: servers behind servers decode again.
const decodings = 4

// Climbs reports whether a decoded path has a segment that leads out of the folder before it, as engines and what stands before them may read
// it: by either slash, with parameters, or encoded again. Such a path could leave the path of an endpoint's URL.
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
