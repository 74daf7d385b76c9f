package paths

import (
	"errors"
	"net/url"
	"strings"

	"github.com/warmpath/warmpath/internal/guard"
)

// ErrBadPath rejects a path with dot segments.
var ErrBadPath = errors.New("the path has a segment that is \".\" or \"..\", encoded or not; send the path without it")

// Unslash takes the slash from the end of a path that is passed on without it, and else would not be: clients join a
// base URL and a path with one too many, and engines' own redirects would lose bodies. A path with a slash that more
// names stays. own reports whether a path is the router's own.
func Unslash(u *url.URL, more *guard.Paths, own func(string) bool) {
	path, ok := strings.CutSuffix(u.Path, "/")
	raw, escaped := strings.CutSuffix(u.RawPath, "/")
	if !ok || path == "" || path[len(path)-1] == '/' || u.RawPath != "" && !escaped {
		return
	}
	if own(path) || len(Methods(path, nil)) > 0 || len(Methods(u.Path, more)) == 0 && len(Methods(path, more)) > 0 {
		u.Path, u.RawPath = path, raw
	}
}

// decodings is how often a path is decoded in search of dot segments, since servers behind servers decode again.
const decodings = 4

// Climbs reports whether a decoded path has a dot segment as engines and proxies before them may read it: with either
// slash, with parameters, or encoded again. Such a path could leave the path of an endpoint's URL.
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
