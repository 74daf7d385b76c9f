package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/policy/reasons"
)

func TestDocumentationNamesEveryPolicyAndReason(t *testing.T) {
	text, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(text), "| `"+name+"`") {
			t.Errorf("docs/policies.md has no row for policy %s", name)
		}
	}
	for _, reason := range reasons.All() {
		if !strings.Contains(string(text), "`"+string(reason)+"`") {
			t.Errorf("docs/policies.md does not explain reason %s", reason)
		}
	}
}
