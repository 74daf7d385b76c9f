// Package starter is the configuration that a user starts with: every setting that most people touch, with a comment,
// and the engines at hand.
//
// It owns the text of that file. It promises YAML that internal/config accepts, also with any commented section put in
// force. It reads and writes no files.
package starter

import (
	_ "embed" // the text
	"fmt"
	"strings"
)

//go:embed warmpath.yaml
var text string

// Endpoint is an engine in the file.
type Endpoint struct {
	URL   string   // perhaps with options after commas, as serve --endpoint takes them
	Kind  string   // empty leaves it to probing
	Ranks int      // data-parallel ranks that become endpoints; 0 leaves the choice of one to the engine
	Slots int      // the same for slots
	Notes []string // comments below it
}

// none stands in the place of engines.
const none = `endpoints: []
#  - http://10.0.0.1:8000                # in place of the []
#  - url: http://10.0.0.2:8000
#    weight: 2                           # twice the share of new traffic
#    ranks: 4                            # data-parallel ranks at one address
#    api_key_file: /etc/warmpath/engine.key`

// File is the configuration with these engines.
func File(endpoints []Endpoint) string {
	if len(endpoints) == 0 {
		return strings.Replace(text, "{{endpoints}}", none, 1)
	}
	var b strings.Builder
	b.WriteString("endpoints:")
	for _, e := range endpoints {
		if e.Kind == "" && e.Ranks+e.Slots == 0 {
			fmt.Fprintf(&b, "\n  - %q", e.URL)
		} else {
			fmt.Fprintf(&b, "\n  - url: %q", e.URL)
		}
		if e.Kind != "" {
			fmt.Fprintf(&b, "\n    kind: %s", e.Kind)
		}
		if e.Ranks > 0 {
			fmt.Fprintf(&b, "\n    ranks: %-28d # each data-parallel rank by itself", e.Ranks)
		}
		if e.Slots > 0 {
			fmt.Fprintf(&b, "\n    slots: %-28d # each slot by itself", e.Slots)
		}
		for _, note := range e.Notes {
			fmt.Fprintf(&b, "\n    # %s", note)
		}
	}
	return strings.Replace(text, "{{endpoints}}", b.String(), 1)
}
