package engine

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestCrowdedAnswers: answers of values that are next to nothing take many times their memory once read, and are
// refused before. Long lists of models and long texts are read.
func TestCrowdedAnswers(t *testing.T) {
	read := func(list string) (fleet.Report, error) {
		var r fleet.Report
		return r, readModels(Answer{Path: "/v1/models", Status: 200, Body: []byte(`{"data":[` + list + `]}`)}, &r)
	}
	for _, each := range []string{"{}", "null", "1", `""`, `{"aliases":[]}`} {
		if _, err := read(strings.Repeat(each+",", 1<<17) + each); err == nil {
			t.Errorf("a list of %s is read", each)
		}
	}
	// what a text says does not count, whatever it ends with
	text := `{"id":"a\\","root":"` + strings.Repeat(`{\"null\",`, 1<<16) + `"}`
	if _, err := read(text); err != nil {
		t.Errorf("a text of braces and commas: %v", err)
	}
	const model = `{"id":"a","object":"model","created":1,"owned_by":"vllm","root":"/models/a","parent":null}`
	for _, each := range []string{model, `{"id":"a"}`} {
		if _, err := read(strings.Repeat(each+",", 1<<13) + each); err != nil {
			t.Errorf("a list of %s: %v", each, err)
		}
	}
}
