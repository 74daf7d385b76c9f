package fleet

// Names are names of models, as patterns in which * stands for any text, slashes included. None at all mean every
// name.
type Names []string

// All reports whether they mean every name.
func (n Names) All() bool { return len(n) == 0 }

// Has reports whether a name is one of them. "" is the name of a request without a model.
func (n Names) Has(name string) bool {
	for _, pattern := range n {
		if matches(pattern, name) {
			return true
		}
	}
	return len(n) == 0
}

// matches takes the shortest text for each star and goes back to the latest one only: earlier ones need no other.
func matches(pattern, name string) bool {
	star, from := -1, 0 // the latest star, and the text after what it stands for
	p, at := 0, 0
	for at < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, at
			p++
		case p < len(pattern) && pattern[p] == name[at]:
			p++
			at++
		case star >= 0:
			from++
			p, at = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
