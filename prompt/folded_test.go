package prompt

import (
	"errors"
	"testing"
)

func TestFolded(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a","MODEL":"b"}`: "model", `{"Stream":true}`: "stream", `{"\u004dodel":"b"}`: "model", "{\"me\u017f\u017fages\":[]}": "messages", `{"x":[{"Model":1}],"optionS":{}}`: "options",
		`{"model":"a","x":{"MODEL":"b"}}`: "", `{"Format":"json"}`: "", `["MODEL"]`: "", ``: "", `{"MODEL`: "", `{}`: "",
	} {
		err := Folded([]byte(body))
		var folded *CaseError
		if errors.As(err, &folded) != (want != "") || want != "" && (folded.Want != want || !errors.Is(err, ErrField)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
