package prompt

import (
	"errors"
	"strconv"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// What can be wrong with a body. All of them are the client's fault (400) and no engine needs to see them. The
// messages are written for the client. Test with errors.Is; SyntaxError and FieldError carry the details.
var (
	ErrEmpty     = errors.New("the request body is empty; expected a JSON object")
	ErrNotObject = errors.New("the request body must be a JSON object")
	ErrRepeated  = errors.New("the request body gives its members too often; give each once")
	ErrField     = errors.New("a field of the request body has the wrong type")
)

// FieldError says which field has the wrong type. It is ErrField.
type FieldError struct {
	Field string        // name of the top-level field
	Want  string        // "a string", "a boolean"
	Got   jsonscan.Kind // what the value is
}

func (e *FieldError) Error() string {
	return strconv.Quote(e.Field) + " must be " + e.Want + ", not " + e.Got.String()
}

// Is makes errors.Is(err, ErrField) true.
func (e *FieldError) Is(target error) bool { return target == ErrField }
