package prompt

import (
	"errors"
	"strconv"
)

// What can be wrong with a body. All of them are the client's fault (400) and no engine needs to see them. The
// messages are written for the client. Test with errors.Is; SyntaxError and FieldError carry the details.
var (
	ErrEmpty     = errors.New("the request body is empty; expected a JSON object")
	ErrNotJSON   = errors.New("the request body is not valid JSON")
	ErrNotObject = errors.New("the request body must be a JSON object")
	ErrRepeated  = errors.New("the request body gives its members too often; give each once")
	ErrField     = errors.New("a field of the request body has the wrong type")
)

// SyntaxError says where a body stops being JSON. It is ErrNotJSON.
type SyntaxError struct {
	Offset int    // byte of the body that cannot stand there; the length of the body when it ends too early
	Want   string // what was expected there
	AtEnd  bool   // the body ends too early
}

func (e *SyntaxError) Error() string {
	found := ""
	if e.AtEnd {
		found = ", found the end of the body"
	}
	return ErrNotJSON.Error() + ": at byte " + strconv.Itoa(e.Offset) + ": expected " + e.Want + found
}

// Is makes errors.Is(err, ErrNotJSON) true.
func (e *SyntaxError) Is(target error) bool { return target == ErrNotJSON }

// FieldError says which field has the wrong type. It is ErrField.
type FieldError struct {
	Field string // name of the top-level field
	Want  string // "a string", "a boolean"
	Got   Kind   // what the value is
}

func (e *FieldError) Error() string {
	return strconv.Quote(e.Field) + " must be " + e.Want + ", not " + e.Got.String()
}

// Is makes errors.Is(err, ErrField) true.
func (e *FieldError) Is(target error) bool { return target == ErrField }
