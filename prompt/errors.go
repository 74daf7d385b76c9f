package prompt

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Errors of a request body. All are the client's fault (400), and the request is not sent to an engine. The messages
// are for the client. Test with errors.Is; SyntaxError and FieldError have details.
var (
	ErrEmpty     = errors.New("the request body is empty; expected a JSON object")
	ErrNotObject = errors.New("the request body must be a JSON object")
	ErrRepeated  = errors.New("the request body repeats its members too often; give each once")
	ErrNamed     = fmt.Errorf("the request body has more than %d ids, files and names of media; send fewer", maxNamed)
	ErrField     = errors.New("a field of the request body has the wrong type")
)

// FieldError names the field with the wrong type. It is ErrField.
type FieldError struct {
	Field string        // name of the top-level field
	Want  string        // "a string", "a boolean"
	Got   jsonscan.Kind // actual kind

	Within bool // the fault is inside the value
}

func (e *FieldError) Error() string {
	if e.Within {
		return strconv.Quote(e.Field) + " must be " + e.Want + ", and has something else in it"
	}
	return strconv.Quote(e.Field) + " must be " + e.Want + ", not " + e.Got.String()
}

// Is makes errors.Is(err, ErrField) true.
func (e *FieldError) Is(target error) bool { return target == ErrField }
