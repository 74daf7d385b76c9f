package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/policy/reasons"
)

func TestDocumentationNamesEveryPolicyAndReason(t *testing.T) {
	var text []byte
	for _, page := range []string{"policies", "other-policies", "ranks"} {
		one, err := os.ReadFile("../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, one...)
	}
	for _, name := range Names() {
		if !strings.Contains(string(text), "| `"+name+"`") {
			t.Errorf("no page has a row for policy %s", name)
		}
	}
	for _, reason := range reasons.All() {
		if !strings.Contains(string(text), "`"+string(reason)+"`") {
			t.Errorf("no page explains reason %s", reason)
		}
	}
}
