package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Errors that a Declarer wraps, for the status of the answer.
var (
	ErrDuplicate   = errors.New("an endpoint of that name is declared already")
	ErrNotDeclared = errors.New("no endpoint of that name is declared here")
)

// failure is an answer in the shape of OpenAI's errors, as on the traffic listener.
type failure struct {
	status  int
	code    string
	message string
	faults  []string // each fault, if there are several
}

func fail(status int, code, format string, args ...any) *failure {
	return &failure{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func (f *failure) write(w http.ResponseWriter) {
	kind := "invalid_request_error"
	switch {
	case f.status == http.StatusUnauthorized || f.status == http.StatusForbidden:
		kind = "authentication_error"
	case f.status >= 500:
		kind = "server_error"
	}
	type body struct {
		Message string   `json:"message"`
		Type    string   `json:"type"`
		Code    string   `json:"code"`
		Faults  []string `json:"faults,omitempty"`
	}
	writeJSON(w, f.status, map[string]body{"error": {f.message, kind, f.code, f.faults}})
}

// writeJSON encodes before it writes the header, so that a value that cannot be encoded is a clean 500.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		status = http.StatusInternalServerError
		b.Reset()
		_, _ = fmt.Fprintf(&b, `{"error":{"message":%q,"type":"server_error","code":"encoding"}}`, err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
