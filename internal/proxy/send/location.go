package send

import (
	"net/http"
	"net/url"
	"strings"
)

// Relocate changes the addresses in an answer's header that lead to the endpoint itself into ones relative to the
// router, whose clients neither reach the endpoint nor should learn where it is. Addresses of other servers are
// dropped: a client would take its key there.
func Relocate(h http.Header, endpoint string) {
	for _, name := range [...]string{"Location", "Content-Location"} {
		at, ok := h[name]
		if !ok {
			continue
		}
		if to, ok := relative(at, endpoint); ok {
			h[name] = []string{to}
		} else {
			delete(h, name)
		}
	}
}

// relative is an address without scheme and host, and without the path of the endpoint's URL; false if it is another
// server's.
func relative(at []string, endpoint string) (string, bool) {
	if len(at) != 1 || strings.Contains(at[0], `\`) { // which browsers take for a slash
		return "", false
	}
	u, err := url.Parse(at[0])
	base, err2 := url.Parse(endpoint)
	if err != nil || err2 != nil || u.Opaque != "" {
		return "", false
	}
	if u.Scheme != "" || u.Host != "" {
		if !strings.EqualFold(u.Host, base.Host) || u.Path == "" {
			return "", false
		}
		u.Scheme, u.Host, u.User = "", "", nil
	}
	if prefix := strings.TrimSuffix(base.Path, "/"); prefix != "" && strings.HasPrefix(u.Path, prefix+"/") {
		u.Path, u.RawPath = u.Path[len(prefix):], ""
	}
	if strings.HasPrefix(u.Path, "//") {
		return "", false
	}
	return u.String(), true
}
