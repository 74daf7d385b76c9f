package prompt

import (
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// CaseError names a top-level member that differs from a known one by case only. It is ErrField.
type CaseError struct{ Got, Want string }

func (e *CaseError) Error() string {
	return "the engine takes " + strconv.Quote(e.Got) + " for " + strconv.Quote(e.Want) + "; write it so"
}

// Is makes errors.Is(err, ErrField) true.
func (e *CaseError) Is(target error) bool { return target == ErrField }

// Folded returns a *CaseError for a member that an engine written in Go (Ollama), whose encoding/json does not regard
// case, takes for one that the router reads by its exact name: the engine would run another model, or another prompt,
// than the router placed. Folding is Unicode's, as encoding/json's.
func Folded(body []byte) error {
	var c jsonscan.Cursor
	c.Reset(body)
	if c.Next() != jsonscan.Object {
		return nil
	}
	for c.Next() == jsonscan.Key {
		name, plain := c.Raw()
		if !plain {
			name = jsonscan.AppendDecoded(nil, name)
		}
		if len(name) <= 3*maxNameBytes && findField(name) == numFields {
			for _, known := range fieldNames {
				if strings.EqualFold(known, string(name)) {
					return &CaseError{string(name), known}
				}
			}
		}
		if !c.Skip(c.Next()) {
			return nil
		}
	}
	return nil
}
