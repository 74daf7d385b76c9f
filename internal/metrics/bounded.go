package metrics

// bounded admits the first max distinct values of a label; the rest share one name.
type bounded struct {
	max    int
	values map[string]struct{}
}

func newBounded(limit int) bounded { return bounded{max: limit, values: map[string]struct{}{}} }

// label is the value to use for s: itself if it is or can be admitted, "none" if empty, "other" if there is no room
// left.
func (b *bounded) label(s string) string {
	switch {
	case s == "":
		return none
	case b.has(s):
		return s
	case len(b.values) >= b.max:
		return other
	}
	b.values[s] = struct{}{}
	return s
}

func (b *bounded) has(s string) bool {
	_, ok := b.values[s]
	return ok
}

func (b *bounded) full() bool { return len(b.values) >= b.max }

func (b *bounded) release(s string) { delete(b.values, s) }
