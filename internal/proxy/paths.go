package proxy

import (
	"errors"
	"net/url"
	"strings"
)

var errBadPath = errors.New("the path has a segment that is \".\" or \"..\", encoded or not; send the path that is meant")

// decodings is how often a path is decoded to look for dots in it: servers behind servers decode again.
const decodings = 4

// climbs reports whether a decoded path has a segment that leads out of the folder before it, as engines and what stands before them may read
// it: by either slash, with parameters, or encoded again. Such a path could leave the path of an endpoint's URL.
func climbs(path string) bool {
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
