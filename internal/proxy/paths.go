package proxy

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/guard"
)

var errBadPath = errors.New("the path has a segment that is \".\" or \"..\", encoded or not; send the path that is meant")

// foreignError says that a page of another site calls, and what would let it.
type foreignError struct {
	why  error
	name string // that was not known
}

func (e *foreignError) Error() string {
	return e.why.Error() + " (" + strconv.Quote(e.name) + "); hosts in the router's configuration allows names"
}

func (e *foreignError) Unwrap() error { return e.why }

// foreign refuses what comes under a foreign name; true when it has.
func (p *Proxy) foreign(c *call) bool {
	why := p.cfg.Names.Check(c.r)
	if why == nil {
		return false
	}
	name := c.r.Host
	if errors.Is(why, guard.ErrForeignOrigin) {
		name = c.r.Header.Get("Origin")
	}
	c.refuse(&foreignError{why, name})
	return true
}

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
