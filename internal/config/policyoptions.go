package config

import (
	"reflect"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/policy"
)

// PolicyOptions lists the options that a policy reads, as paths below "policy" in the file, such as
// rank.max_num_active_requests for rank.first_turn. Policies of one family share options.
func PolicyOptions(name string) []string {
	v, path := reflect.TypeFor[policy.Config](), ""
	for _, part := range strings.Split(name, ".") {
		at := -1
		for i, f := range strictyaml.Fields(v) {
			if f.Name == part && f.Type.Kind() == reflect.Struct {
				at = i
			}
		}
		if at < 0 {
			break
		}
		v, path = strictyaml.Fields(v)[at].Type, strictyaml.Join(path, part)
	}
	if path == "" {
		return nil
	}
	var out []string
	for _, f := range strictyaml.Fields(v) {
		if strictyaml.IsLeaf(f.Type) {
			out = append(out, strictyaml.Join(path, f.Name))
		}
	}
	return out
}

// SetPolicyOption stores the text of an option, named as PolicyOptions does. The value is not checked against other
// options.
func SetPolicyOption(c *policy.Config, option, text string) error {
	return setAt(reflect.ValueOf(c).Elem(), strings.Split(option, "."), text)
}
