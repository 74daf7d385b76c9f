package prompt

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

func TestSetMember(t *testing.T) {
	for _, row := range []struct {
		object, want string
		err          error
	}{
		{`{}`, `{"a":true}`, nil},
		{` { } `, ` {"a":true } `, nil},
		{`{"id":1234567890123456789, "n":1.0}`, `{"a":true,"id":1234567890123456789, "n":1.0}`, nil},
		{`{"x":{"a":false},"a" : false}`, `{"x":{"a":false},"a" : true}`, nil},
		{`{"a":[1,{"a":2}],"b":0}`, `{"a":true,"b":0}`, nil},
		{`{"a":1,"a":null}`, `{"a":1,"a":true}`, nil},
		{`{"\u0061":1}`, `{"\u0061":true}`, nil},
		{`{"A":1}`, `{"a":true,"A":1}`, nil},
		{`null`, ``, ErrNotObject},
		{`[{}]`, ``, ErrNotObject},
		{`{"b":}`, ``, jsonscan.ErrNotJSON},
		{`{"b":[1,}`, ``, jsonscan.ErrNotJSON},
		{`{} x`, ``, jsonscan.ErrNotJSON},
		{``, ``, jsonscan.ErrNotJSON},
	} {
		got, err := SetMember([]byte("kept"), []byte(row.object), "a", []byte("true"))
		if !errors.Is(err, row.err) || string(got) != "kept"+row.want {
			t.Errorf("%s: %s, %v, want %s, %v", row.object, got, err, row.want, row.err)
		}
	}
}

// FuzzSetMember compares with encoding/json: accepted input is an object, and the member is set.
func FuzzSetMember(f *testing.F) {
	for _, object := range []string{
		`{}`, `{"a":1}`, `{"b":[{"a":{}}],"a":"x"}`, `{"\u0061":0,}`, `[]`, ` {"a" :1 , "a":2} `, "{\"\xff\":1}",
	} {
		f.Add([]byte(object))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		out, err := SetMember(nil, object, "a", []byte("7"))
		var was, is map[string]json.RawMessage
		if valid := json.Unmarshal(object, &was) == nil && was != nil; valid != (err == nil) {
			t.Fatalf("encoding/json takes it: %v, SetMember: %v", valid, err)
		}
		if err != nil {
			return
		}
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if string(is["a"]) != "7" {
			t.Fatalf("the member is %s in %s", is["a"], out)
		}
		for name, value := range was {
			if name != "a" && string(is[name]) != string(value) {
				t.Fatalf("%q changed from %s to %s", name, value, is[name])
			}
		}
	})
}
