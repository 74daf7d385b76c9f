package prompt

import (
	"errors"
	"strings"
	"testing"
)

func TestFolded(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a","MODEL":"b"}`: "model", `{"Stream":true}`: "stream", `{"\u004dodel":"b"}`: "model",
		"{\"me\u017f\u017fages\":[]}": "messages", `{"x":[{"Model":1}],"optionS":{}}`: "options",
		`{"MODEL":"b"} {`: "model", "{\"\u212aV_Transfer_params\":1}": "kv_transfer_params", "{\"mode\u0142\":1}": "",
		`{"modeſ":1}`: "", `{"model":"a","x":{"MODEL":"b"}}`: "", `{"Format":"json"}`: "", `["MODEL"]`: "", ``: "",
		`{"MODEL`: "", `{}`: "",
	} {
		read, _ := new(Parser).Peek([]byte(body), nil)
		folded := read.Folded
		if (folded != nil) != (want != "") || want != "" && (folded.Want != want || !errors.Is(folded, ErrField)) {
			t.Errorf("%s: %v, want %q", body, folded, want)
		}
	}
}

// FuzzFold: names are folded as encoding/json does it.
func FuzzFold(f *testing.F) {
	for _, name := range []string{
		"MODEL", "meſſages", "\u212av_transfer_params", "mode\u0142", "\xff", "Mine", "model",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := findField(fold(nil, []byte(name)))
		for i, known := range fieldNames {
			if folds := strings.EqualFold(known, name); folds != (got == field(i)) {
				t.Errorf("%q folds to %q: %t", name, known, folds)
			}
		}
	})
}
