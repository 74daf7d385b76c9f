package send

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// TestModelIsFoundInForms: wherever a form or query names the model it is found, and set without a change of other
// bytes.
func TestModelIsFoundInForms(t *testing.T) {
	const part = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n"
	const file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\n" +
		"name=\"model\"\r\n\r\nx\r\n"
	const form = "multipart/form-data; boundary=b"
	for _, c := range []struct{ media, query, body, model, want string }{
		{form, "", part + file + "--b--\r\n", "m", ""},
		{`Multipart/Form-Data; boundary="b"`, "", file + part + "--b--\r\n", "m", ""},
		{form, "", "preamble\r\n" + file + strings.ToLower(part) + "--b--", "m", ""},
		{form, "", strings.Replace(part, "\r\n\r\nm", "\r\n\r\n", 1) + part + "--b--", "m", ""},
		{form, "", part + part + "--b--", "m", ""},
		{form, "", file + "--b--\r\n", "", ""},
		{form, "", part[:40], "", ""},
		{"multipart/form-data", "", part + "--b--", "", ""},
		{"application/x-www-form-urlencoded", "", "a=1&model=m&xmodel=n", "m", "a=1&model=big%2Fone&xmodel=n"},
		{"application/x-www-form-urlencoded", "", `{"model":"m"}`, "", ""},
		{"", "a=1&model=m", "", "m", ""},
		{"", "model=", "", "", ""},
	} {
		r := httptest.NewRequest("POST", "/v1/audio/transcriptions?"+c.query, nil)
		r.Header.Set("Content-Type", c.media)
		in := &Incoming{R: r, Body: &body.Payload{Bytes: []byte(c.body)}}
		if in.ReadNames(); in.Named() != c.model {
			t.Errorf("%+v: model %q", c, in.Named())
		}
		want := c.want
		if want == "" {
			want = strings.ReplaceAll(c.body, "\r\n\r\nm\r\n", "\r\n\r\nbig/one\r\n")
		}
		if got := string(prompt.Splice(nil, in.Body.Bytes, in.inForm.edits("big/one")...)); got != want &&
			in.inForm.name != "" {
			t.Errorf("%+v: became %q, want %q", c, got, want)
		}
	}
}

// formOf is a request with a form, whose fields have been read.
func formOf(contentType string, text []byte) *Incoming {
	r := httptest.NewRequest(http.MethodPost, "/v1/audio/transcriptions", nil)
	r.Header.Set("Content-Type", contentType)
	in := &Incoming{R: r, Body: &body.Payload{Bytes: text}}
	in.ReadNames()
	return in
}

// TestFieldsRefer: ids of what engines keep are found in fields of forms and queries, however they are written. Where a
// field cannot be read, or there are too many, that is known.
func TestFieldsRefer(t *testing.T) {
	part := func(disposition, value string) string {
		return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + value + "\r\n"
	}
	const form, pairs = "multipart/form-data; boundary=b", "application/x-www-form-urlencoded"
	for _, c := range []struct {
		media, body, ids string
		whole            bool
	}{
		{
			form, part(`name="file_id"`, "a") + part(`name="file_ids[]"`, "b") + part(`name="model"`, "m") + "--b--",
			"a b", true,
		},
		{
			form, part(`name="file"; filename="file_id"`, "a") + part(`name=previous_response_id`, "b") + "--b--",
			"b", true,
		},
		{form, part(`name="file_id"; name="x"`, "a") + part(`name="model"`, "m") + "--b--", "", false},
		{form, strings.Repeat(part(`name="x"`, "a"), mostParts) + part(`name="file_id"`, "b") + "--b--", "", false},
		{
			form, part("name=\"x\"; filename=\"y\"\r\ncontent-disposition: form-data; name=\"file_id\"", "a") +
				part(`name="model"`, "m") + "--b--", "", false,
		},
		{"multipart/form-data", part(`name="file_id"`, "a") + "--b--", "", false},
		{pairs, "file_id=a&file%5Fid=b%20c&x=file_id&file_ids%5B%5D=d&file_id=", "a b c d", true},
		{pairs, strings.Repeat("x=y&", mostParts) + "file_id=a", "", false},
		{pairs, `{"file_id":"a"}`, "", true}, // read as JSON
	} {
		in := formOf(c.media, []byte(c.body))
		if got := strings.Join(in.InFields.IDs, " "); got != c.ids || in.InFields.Whole() != c.whole {
			t.Errorf("%s %.200q: %q, whole %t", c.media, c.body, got, in.InFields.Whole())
		}
		if c.media == pairs && c.body[0] != '{' {
			q := &Incoming{R: httptest.NewRequest(http.MethodGet, "/v1/x?"+c.body, nil)}
			if q.ReadNames(); strings.Join(q.InFields.IDs, " ") != c.ids || q.InFields.Whole() != c.whole {
				t.Errorf("query %.200q: %q", c.body, q.InFields.IDs)
			}
		}
	}
}

// TestModelIsSetWhereAnotherStands: of several places in a form or query each that names another model is set, the
// others stay.
func TestModelIsSetWhereAnotherStands(t *testing.T) {
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + name + "\r\n"
	}
	for text, want := range map[string]string{
		part("alias") + part("m") + "--b--": part("m") + part("m") + "--b--",
		part("m") + part("alias") + "--b--": part("m") + part("m") + "--b--",
		part("m") + "--b--":                 part("m") + "--b--",
		"model=alias&model=m&a=1":           "model=m&model=m&a=1",
		"model=%6d&a=1":                     "model=%6d&a=1",
	} {
		media := "application/x-www-form-urlencoded"
		if strings.HasPrefix(text, "--") {
			media = "multipart/form-data; boundary=b"
		}
		n := formOf(media, []byte(text)).inForm
		if got := string(prompt.Splice(nil, []byte(text), n.edits("m")...)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestQueryIsLeftToTheBody: the model in a query is set only if nothing in the body names one.
func TestQueryIsLeftToTheBody(t *testing.T) {
	const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nalias\r\n--b--"
	for _, c := range []struct{ media, body, json, want string }{
		{"", "", "", "model=m"},
		{"application/json", `{"model":"alias"}`, "alias", "model=other"},
		{"multipart/form-data; boundary=b", form, "", "model=other"},
		{"application/x-www-form-urlencoded", "model=alias", "", "model=other"},
		{"application/x-www-form-urlencoded", "a=b", "", "model=m"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/audio/transcriptions?model=other", nil)
		r.Header.Set("Content-Type", c.media)
		in := &Incoming{R: r, Body: &body.Payload{Bytes: []byte(c.body)}, Prompt: prompt.Prompt{Model: c.json}}
		in.ReadNames()
		if got := (&Outgoing{c: in, d: &route.Decision{Model: "m"}}).query(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func FuzzForm(f *testing.F) {
	f.Add("multipart/form-data; boundary=b",
		[]byte("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n"))
	f.Add("application/x-www-form-urlencoded", []byte("model=m&a=%zz"))
	f.Fuzz(func(t *testing.T, contentType string, text []byte) {
		n := formOf(contentType, text).inForm
		for _, at := range n.at {
			if at.Start < 0 || at.End > len(text) || at.Start >= at.End {
				t.Fatalf("%v of %d", at, len(text))
			}
		}
		_ = prompt.Splice(nil, text, n.edits("other")...)
	})
}

// TestFormsAsGoWritesThem: the standard library's writer, which quotes and pads as others do.
func TestFormsAsGoWritesThem(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	file, _ := w.CreateFormFile("file", "a.wav")
	_, _ = file.Write(bytes.Repeat([]byte("\r\n--"), 1000))
	_ = w.WriteField("model", "whisper")
	_ = w.Close()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", w.FormDataContentType())
	in := &Incoming{R: r, Body: &body.Payload{Bytes: b.Bytes()}}
	if in.ReadNames(); in.Named() != "whisper" {
		t.Errorf("%q", in.Named())
	}
}
