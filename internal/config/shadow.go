package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route/shadow"
)

// Shadow evaluates other policies on the live traffic without applying them: GET /admin/shadow, warmpath explain
// --shadow, metrics. Instead of the mapping, names are policies.
type Shadow struct {
	// Policies to evaluate, by name, at most 8. Their options are those under policy.
	Policies []string `yaml:"policies"`
	// Budget is the share of one processor core that the evaluation may take. Beyond it fewer conversations are
	// evaluated.
	Budget float64 `yaml:"budget"`
}

const defaultBudget = 0.05

func (s *Shadow) check() []error {
	var faults []error
	if len(s.Policies) > shadow.Most {
		faults = append(faults, fault("shadow.policies", "has %d policies, must be at most %d",
			len(s.Policies), shadow.Most))
	}
	for i, name := range s.Policies {
		if err := (policy.Config{Name: name}).Validate(); err != nil {
			faults = append(faults,
				fault("shadow.policies", "%w", errors.New(strings.TrimPrefix(err.Error(), "policy: name "))))
		}
		if name == "" || slices.Contains(s.Policies[:i], name) {
			faults = append(faults, fault("shadow.policies", "names %q twice or not at all", name))
		}
	}
	if !(s.Budget > 0 && s.Budget <= 1) {
		faults = append(faults,
			fault("shadow.budget", "is %v, must be above 0 and at most 1, a share of one core", s.Budget))
	}
	return faults
}

// shadowScalar reads a plain text instead of the mapping.
func shadowScalar(into any, text string) error {
	return strictyaml.Set(reflect.ValueOf(&into.(*Shadow).Policies).Elem(), text)
}
