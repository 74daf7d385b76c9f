package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
)

// prefix is the prefix of warmpath's annotations.
const prefix = "warmpath.dev/"

// roleLabel is llm-d's label of a pod's role.
const roleLabel = "llm-d.ai/role"

// roles are the values of llm-d's label. Encoders are left out: warmpath does not route to them.
var roles = map[string]fleet.Role{
	"prefill": fleet.RolePrefill, "decode": fleet.RoleDecode, "both": fleet.RoleBoth, "prefill-decode": fleet.RoleBoth,
	"encode-prefill": fleet.RolePrefill, "encode-prefill-decode": fleet.RoleBoth,
}

// annotate applies a pod's warmpath annotations and llm-d role label to the settings. It fails for contradictions and
// unknown values.
func annotate(e *discovery.EndpointConfig, p *pod) error {
	if label := p.Labels[roleLabel]; label != "" {
		role, ok := roles[label]
		if !ok {
			return fmt.Errorf("the label %s is %q; warmpath knows prefill, decode, both and prefill-decode",
				roleLabel, label)
		}
		ours := p.Annotations[prefix+"role"]
		if r, err := fleet.ParseRole(ours); ours != "" && (err != nil || r != role) {
			return fmt.Errorf("the annotation %srole is %q and the label %s is %q; leave one out",
				prefix, ours, roleLabel, label)
		}
		e.Role = string(role)
	}
	var faults []error
	for key, value := range p.Annotations {
		name, ours := strings.CutPrefix(key, prefix)
		if !ours || name == "port" || name == "scheme" { // part of the address, see declare
			continue
		}
		if err := e.SetTrait(strings.ReplaceAll(name, "-", "_"), value); err != nil {
			faults = append(faults, fmt.Errorf("the annotation %s: %w", key, err))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}
