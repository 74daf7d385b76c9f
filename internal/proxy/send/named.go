package send

import (
	"bytes"
	"mime"
	"net/url"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Bounds on what is looked at in a form or query, and on a model's name there, in bytes.
const (
	mostParts   = 256
	longestName = 1024
	longestPair = 4 * longestName // with its name, and escaped
)

// Media is the media type of a Content-Type, in lower case and without parameters.
func Media(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// namedModel is a model that is named elsewhere than in JSON: where, and how a name is written there.
type namedModel struct {
	name  string // of the last place, as most servers read it
	at    []namedAt
	write func(string) string
}

// withheldFields is what of a form's fields reaches no engine, see handover.Withhold.
type withheldFields struct {
	edits []prompt.Edit
	last  string // the name of the last one
}

// namedAt is a place that names a model.
type namedAt struct {
	jsonscan.Span
	name string
}

// found adds a place.
func (n *namedModel) found(name string, start, end int) {
	n.name, n.at = name, append(n.at, namedAt{jsonscan.Span{Start: start, End: end}, name})
}

func plainly(s string) string { return s }

// edits set the model in each place where another one stands.
func (n *namedModel) edits(model string) (edits []prompt.Edit) {
	for _, at := range n.at {
		if model != "" && at.name != model {
			edits = append(edits, prompt.Edit{At: at.Span, With: []byte(n.write(model))})
		}
	}
	return edits
}

// ReadNames reads the model that the query or a form in the body names, the ids by which they refer to what engines
// keep, and what of a form's fields is withheld.
func (c *Incoming) ReadNames() {
	c.inQuery, c.inForm = namedModel{write: url.QueryEscape}, namedModel{}
	c.InFields, c.withheld = Fields{}, withheldFields{}
	c.InFields.more = !eachPair([]byte(c.R.URL.RawQuery), c.field(&c.inQuery))
	contentType := c.R.Header.Get("Content-Type")
	switch text := c.Text(); Media(contentType) {
	case "multipart/form-data":
		c.inForm.write = plainly
		c.InFields.formMore = !eachPart(contentType, text, c.fieldOfForm)
	case "application/x-www-form-urlencoded":
		if jsonscan.FirstByte(text) != '{' { // as curl sends JSON with -d
			c.inForm.write = url.QueryEscape
			c.InFields.formMore = !eachPair(text, c.fieldOfForm)
		}
	}
}

// Fields are what fields of a query and a form say beside the model.
type Fields struct {
	IDs            []string // by which they refer to what engines keep
	more, formMore bool     // the query, or the form, has more fields than are looked at
}

// Whole reports whether all fields were looked at.
func (f *Fields) Whole() bool { return !f.more && !f.formMore }

// FormWhole reports whether all fields of a form were looked at.
func (f *Fields) FormWhole() bool { return !f.formMore }

// fieldOfForm takes one field of a form.
func (c *Incoming) fieldOfForm(name string, value []byte, start, end int) {
	if with, ok := handover.WithholdField(name, value); ok {
		edit := prompt.Edit{At: jsonscan.Span{Start: start, End: end}, With: []byte(c.inForm.write(string(with)))}
		c.withheld.edits, c.withheld.last = append(c.withheld.edits, edit), name
		return
	}
	c.field(&c.inForm)(name, value, start, end)
}

// field takes one field.
func (c *Incoming) field(model *namedModel) func(name string, value []byte, start, end int) {
	return func(name string, text []byte, start, end int) {
		value := string(text[:min(len(text), longestPair)])
		switch name = strings.TrimSuffix(name, "[]"); {
		case value == "" && name == "model":
			model.name = ""
		case value == "":
		case name == "model":
			if len(value) <= longestName {
				model.found(value, start, end)
			}
		case name == "conversation" || name == "call_id" || prompt.RefersBy(name):
			c.InFields.IDs = append(c.InFields.IDs, value)
		}
	}
}

// ModelHeader names the model of a request, before all else.
const ModelHeader = "X-Warmpath-Model"

// Models lists every model that the request may name to an engine, in whatever way. base reports whether an engine may
// compute its own model beside, since nothing that it reads names another: it reads no header, and no query beside a
// body. In an API that has a member for it, any of the names gets into the body.
func (c *Incoming) Models() (names []string, base bool) {
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	add(Named(c.R.Header).Get(ModelHeader))
	inPath := false
	for _, prefix := range [...]string{"/v1/models/", "/v2/models/"} {
		if of, ok := strings.CutPrefix(c.R.URL.Path, prefix); ok {
			if prefix != "/v1/models/" { // Open Inference Protocol: /v2/models/NAME/infer
				of, _, _ = strings.Cut(of, "/")
			}
			inPath = inPath || of != ""
			add(of)
		}
	}
	for _, in := range [...]*namedModel{&c.inQuery, &c.inForm} {
		for _, at := range in.at {
			add(at.name)
		}
	}
	inBody, base := prompt.Models(c.API, c.R.URL.Path, c.Text())
	for _, name := range inBody {
		add(name)
	}
	if c.API.NamesModel() {
		return names, len(names) == 0
	}
	return names, base && !inPath && c.inForm.name == ""
}

// Named is the model that a form or the query names; "" for none.
func (c *Incoming) Named() string {
	if c.inForm.name != "" {
		return c.inForm.name
	}
	return c.inQuery.name
}

// eachPair reads name=value pairs, and where each value stands. It reports false where there are more than it reads.
func eachPair(text []byte, field func(name string, value []byte, start, end int)) bool {
	for at, parts := 0, 0; at < len(text); parts++ {
		if parts == mostParts {
			return false
		}
		end := len(text)
		if i := bytes.IndexByte(text[at:], '&'); i >= 0 {
			end = at + i
		}
		escaped, rest, _ := bytes.Cut(text[at:end], []byte{'='})
		start := min(at+len(escaped)+1, end)
		if len(escaped) <= longestPair {
			name, err := url.QueryUnescape(string(escaped))
			if !handover.Withholds(name) {
				rest = rest[:min(len(rest), longestPair)]
			}
			if value, wrong := url.QueryUnescape(string(rest)); err == nil && wrong == nil {
				field(name, []byte(value), start, end)
			}
		}
		at = end + 1
	}
	return true
}

// eachPart reads the fields of a form (RFC 7578); files are passed over. It reports false where there is more than it
// reads.
func eachPart(contentType string, body []byte, field func(name string, value []byte, start, end int)) bool {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return false
	}
	line := []byte("\r\n--" + params["boundary"])
	at := len(line) - 2
	if !bytes.HasPrefix(body, line[2:]) { // a preamble
		i := bytes.Index(body, line)
		if i < 0 {
			return true
		}
		at = i + len(line)
	}
	whole := true
	for range mostParts {
		head := bytes.Index(body[at:], []byte("\r\n\r\n"))
		if bytes.HasPrefix(body[at:], []byte("--")) || head < 0 {
			return whole
		}
		from := at + head + 4
		end := bytes.Index(body[from-2:], line) // the value may be empty
		if end < 0 {
			return whole
		}
		next := from - 2 + end + len(line)
		end = max(from, from-2+end)
		name, ok := fieldName(body[at:from])
		if whole = whole && (ok || isFile(body[at:from])); name != "" {
			field(name, body[from:end], from, end)
		}
		at = next
	}
	return false
}

// fieldName is the name of a part that is no file, by its head; ok is false where it cannot be read, or is said twice:
// engines go by the last.
func fieldName(head []byte) (name string, ok bool) {
	said := false
	for l := range bytes.SplitSeq(head, []byte("\r\n")) {
		header, value, _ := strings.Cut(string(l), ":")
		if !strings.EqualFold(strings.TrimSpace(header), "Content-Disposition") {
			continue
		}
		_, params, err := mime.ParseMediaType(value)
		if err != nil || said {
			return "", false
		}
		if said = true; params["filename"] == "" {
			name = params["name"]
		}
	}
	return name, true
}

// isFile reports whether a part whose name cannot be read is a file, with an odd name: what its one disposition says
// before the file's name can be read.
func isFile(head []byte) bool {
	_, after, _ := strings.Cut(strings.ToLower(string(head)), "content-disposition")
	line, _, _ := strings.Cut(after, "\r\n")
	front, name, _ := strings.Cut(line, "filename")
	front = strings.TrimRight(strings.TrimLeft(front, " \t:"), " \t")
	if strings.Contains(after, "content-disposition") || !strings.HasSuffix(front, ";") ||
		strings.TrimLeft(name, "=*") == name {
		return false
	}
	_, _, err := mime.ParseMediaType(front)
	return err == nil
}
