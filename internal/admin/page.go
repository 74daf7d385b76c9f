package admin

import (
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var statusJS string

//go:embed decisions.js
var decisionsJS string

// page is the status page: one document that loads nothing, with a policy that lets it run its own script only.
type page struct {
	body   []byte
	policy string // Content-Security-Policy
}

func newPage() page {
	pageJS := statusJS + decisionsJS
	return page{
		body: []byte(strings.NewReplacer("/*css*/", pageCSS, "/*js*/", pageJS).Replace(pageHTML)),
		policy: "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
			"style-src 'sha256-" + digest(pageCSS) + "'; script-src 'sha256-" + digest(pageJS) + "'",
	}
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
