package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/uplot"
)

// assets are the parts of the page.
//
//go:embed page
var assets embed.FS

// page is the status page: one document that loads nothing, with a policy that lets it run its own script only.
type page struct {
	body   []byte
	policy string // Content-Security-Policy
}

func newPage() page {
	css := uplot.Style + part("page.css")
	js := uplot.Script()
	for _, name := range []string{
		"page.js", "endpoints.js", "aliases.js", "charts.js", "decisions.js", "conversation.js", "stream.js",
	} {
		js += "\n" + part(name)
	}
	return page{
		body: []byte(strings.NewReplacer("/*css*/", css, "/*js*/", js).Replace(part("page.html"))),
		policy: "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
			"frame-ancestors 'none'; style-src 'sha256-" + digest(css) + "'; script-src 'sha256-" + digest(js) + "'",
	}
}

// part is one of the assets, which the build has put in.
func part(name string) string {
	b, err := assets.ReadFile("page/" + name)
	if err != nil {
		panic("admin: " + err.Error())
	}
	return string(b)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (p *page) serve(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", p.policy)
	w.WriteHeader(status)
	_, _ = w.Write(p.body)
}
