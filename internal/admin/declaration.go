package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Declaration is the body of POST /admin/endpoints, as it came. What its values mean and which are allowed is for
// Config.Parse to say.
type Declaration struct {
	URL    string
	Name   string   // "" lets Parse make one of the URL
	Kind   string   // "" means "recognise it by probing"
	Role   string   // prefill, decode or both; "" for both
	Weight *float64 // nil when not stated
	Models []string // nil means "what the engine reports"
	Ranks  int      // declare so many data-parallel ranks instead of the whole engine; 0 for the whole
	Slots  int      // likewise for the slots of a llama.cpp server
}

// readDeclaration reads a body strictly and lists every fault of form at once: unknown keys and wrong types.
func readDeclaration(w http.ResponseWriter, r *http.Request) (Declaration, *failure) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDeclaration))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return Declaration{}, fail(http.StatusRequestEntityTooLarge, "too_large", "the body is longer than %d bytes",
			maxDeclaration)
	}
	if err != nil {
		return Declaration{}, fail(http.StatusBadRequest, "bad_body", "the body cannot be read: %v", err)
	}
	d, err := parseDeclaration(body)
	if err != nil {
		return d, faulty(err)
	}
	return d, nil
}

func parseDeclaration(body []byte) (Declaration, error) {
	var d Declaration
	if len(bytes.TrimSpace(body)) == 0 {
		return d, errors.New("there is no body; send a JSON object with at least \"url\"")
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil || keys == nil {
		return d, errors.New("the body is not a JSON object")
	}
	fields := map[string]any{
		"url": &d.URL, "name": &d.Name, "kind": &d.Kind, "role": &d.Role, "weight": &d.Weight, "models": &d.Models,
		"ranks": &d.Ranks, "slots": &d.Slots,
	}
	wants := map[string]string{
		"url": "a string", "name": "a string", "kind": "a string", "role": "a string", "weight": "a number",
		"models": "a list of strings", "ranks": "a whole number", "slots": "a whole number",
	}
	var faults []error
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		field, ok := fields[k]
		if !ok {
			faults = append(faults, fmt.Errorf("unknown key %q; known are %s",
				k, strings.Join(slices.Sorted(maps.Keys(fields)), ", ")))
			continue
		}
		if err := json.Unmarshal(keys[k], field); err != nil ||
			(k != "weight" && k != "models" && string(keys[k]) == "null") {
			faults = append(faults, fmt.Errorf("%s: want %s, got %s", k, wants[k], clip(keys[k])))
		}
	}
	if _, ok := keys["url"]; !ok {
		faults = append(faults, errors.New("url: is required"))
	}
	return d, errors.Join(faults...)
}

// clip shortens a value for a message.
func clip(b []byte) string {
	const longest = 60
	if s := string(b); len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(string(b[:longest]), "") + "..."
}
