package metrics

// bounded admits the first max distinct values.
type bounded[T comparable] struct {
	max    int
	values map[T]struct{}
}

func newBounded[T comparable](limit int) bounded[T] {
	return bounded[T]{max: limit, values: map[T]struct{}{}}
}

// admit reports whether v is or can be one of the values.
func (b *bounded[T]) admit(v T) bool {
	if b.has(v) {
		return true
	}
	if b.full() {
		return false
	}
	b.values[v] = struct{}{}
	return true
}

func (b *bounded[T]) has(v T) bool {
	_, ok := b.values[v]
	return ok
}

func (b *bounded[T]) full() bool { return len(b.values) >= b.max }

func (b *bounded[T]) release(v T) { delete(b.values, v) }

// labelValues are bounded values of a label; the rest share one name.
type labelValues struct{ bounded[string] }

func newLabelValues(limit int) labelValues { return labelValues{newBounded[string](limit)} }

// label is the value to use for s: itself if it is or can be admitted, "none" if empty, "other" if there is no room
// left.
func (l *labelValues) label(s string) string {
	switch {
	case s == "":
		return none
	case l.admit(s):
		return s
	}
	return other
}
