package send

import (
	"bytes"
	"mime"
	"net/url"
	"strings"

	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// Bounds on what is looked at in a form or query, and on a model's name there, in bytes.
const (
	mostParts   = 256
	longestName = 1024
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

// ReadNames reads the model that the query or a form in the body names.
func (c *Incoming) ReadNames() {
	c.inQuery = inPairs([]byte(c.R.URL.RawQuery))
	contentType := c.R.Header.Get("Content-Type")
	switch text := c.Text(); Media(contentType) {
	case "multipart/form-data":
		c.inForm = inMultipart(contentType, text)
	case "application/x-www-form-urlencoded":
		if jsonscan.FirstByte(text) != '{' { // as curl sends JSON with -d
			c.inForm = inPairs(text)
		}
	}
}

// Named is the model that a form or the query names; "" for none.
func (c *Incoming) Named() string {
	if c.inForm.name != "" {
		return c.inForm.name
	}
	return c.inQuery.name
}

// inPairs finds the model in name=value pairs.
func inPairs(text []byte) (n namedModel) {
	n.write = url.QueryEscape
	const name = "model="
	for at, parts := 0, 0; at < len(text) && parts < mostParts; parts++ {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '&'); i >= 0 {
			end = at + i
		}
		if v, ok := bytes.CutPrefix(text[at:end], []byte(name)); ok && len(v) <= longestName {
			if model, err := url.QueryUnescape(string(v)); err == nil && model != "" {
				n.found(model, at+len(name), end)
			}
		}
		at = end + 1
	}
	return n
}

// inMultipart finds the model in the fields of a form (RFC 7578); files are passed over.
func inMultipart(contentType string, body []byte) (n namedModel) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return n
	}
	n.write = plainly
	line := []byte("\r\n--" + params["boundary"])
	at := len(line) - 2
	if !bytes.HasPrefix(body, line[2:]) { // a preamble
		i := bytes.Index(body, line)
		if i < 0 {
			return n
		}
		at = i + len(line)
	}
	for range mostParts {
		head := bytes.Index(body[at:], []byte("\r\n\r\n"))
		if bytes.HasPrefix(body[at:], []byte("--")) || head < 0 {
			return n
		}
		from := at + head + 4
		end := bytes.Index(body[from-2:], line) // the value may be empty
		if end < 0 {
			return n
		}
		next := from - 2 + end + len(line)
		if end = max(from, from-2+end); fieldName(body[at:from]) == "model" && end > from && end-from <= longestName {
			n.found(string(body[from:end]), from, end)
		}
		at = next
	}
	return n
}

// fieldName is the name of a part that is no file, by its head.
func fieldName(head []byte) string {
	for l := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := strings.Cut(string(l), ":")
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Disposition") {
			continue
		}
		if _, params, err := mime.ParseMediaType(value); err == nil && params["filename"] == "" {
			return params["name"]
		}
	}
	return ""
}
