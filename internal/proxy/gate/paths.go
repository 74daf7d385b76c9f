package gate

import (
	"errors"
	"net/url"
	"strings"
)

// ErrBadPath rejects a path with dot segments.
var ErrBadPath = errors.New("the path has a segment that is \".\" or \"..\", encoded or not; send the path without it")

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
