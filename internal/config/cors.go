package config

import (
	"net/url"
	"slices"
	"strings"
)

// CORS says which web pages may read answers (Fetch standard, CORS protocol).
type CORS struct {
	// Origins are the web pages, each as https://app.example, that may read answers where an engine allows it; ["none"]
	// forbids it to all. Access-Control-* of engines then reach no other page, and neither do the router's own. Empty
	// leaves it to engines: vLLM allows any page. Answers that Envoy fetches do not pass the router (extproc), and keep
	// what engines say. The pages named may call wherever hosts would refuse their origin.
	Origins []string `yaml:"origins"`
}

const noOrigin = "none" // as the only origin: no page

func (c CORS) check() []error {
	if slices.Equal(c.Origins, []string{noOrigin}) {
		return nil
	}
	var faults []error
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || o != u.Scheme+"://"+u.Host || o != strings.ToLower(o) {
			faults = append(faults, fault("cors.origins", "%q is not an origin such as https://app.example, "+
				"in lower case without a path; [none] alone is no page", o))
		}
	}
	return faults
}
