package paths

import (
	"path"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/policy/nearest"
)

// common are the paths that most clients ask for, longer ones first where one ends with another.
var common = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages",
	"/v1/messages/count_tokens", "/v1/models",
	"/api/chat", "/api/generate", "/api/embed", "/generate",
}

const (
	telling      = 3   // as many of them, from the first on, are told by their end without /v1
	misspelt     = 7   // as many of them, from the first on, are long enough to be told from others by a letter or two
	longestMeant = 128 // bytes of a path that is compared
)

// Meant is "; did you mean "x"?" for a path that was probably meant for a common one: it has something before it, such
// as a base URL that is a whole path already or Azure's deployment, lacks its /v1, has slashes too many or capitals, or
// is misspelt. "" when none is near, or it is right.
func Meant(asked string) string {
	if len(asked) > longestMeant || slices.Contains(common, asked) {
		return ""
	}
	clean := path.Clean("/" + strings.ToLower(asked))
	if clean == "/v1" || clean == "/v1/chat" {
		clean = common[0]
	}
	for _, c := range common {
		if strings.HasSuffix(clean, c) || "/v1"+clean == c {
			return `; did you mean "` + c + `"?`
		}
	}
	for _, c := range common[:telling] {
		if strings.HasSuffix(clean, strings.TrimPrefix(c, "/v1")) {
			return `; did you mean "` + c + `"?`
		}
	}
	const version = "/v1/" // most paths begin with it, which makes none of them near
	var tails []string
	for _, c := range common[:misspelt] {
		tails = append(tails, strings.TrimPrefix(c, version))
	}
	near := nearest.Names(strings.Trim(strings.TrimPrefix(clean, "/v1"), "/"), tails)
	for i := range near {
		near[i] = version + near[i]
	}
	return nearest.Ask(near)
}

// wholeBase is what is too much of a client's base URL that is a whole path, where the client has put a path behind it:
// "/chat/completions" of /v1/chat/completions/chat/completions. "" for other paths.
func wholeBase(asked string) string {
	if Meant(asked) == "" {
		return ""
	}
	for _, c := range common {
		rest, ok := strings.CutPrefix(asked, c+"/")
		if ok && strings.HasPrefix(rest, "v1/") {
			return c // the client puts /v1 before its paths
		} else if ok {
			return strings.TrimPrefix(c, "/v1")
		}
	}
	return ""
}
