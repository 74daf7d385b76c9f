package shadow

// Sizes is how many pools, things under way and conversations shadows keep, the most of any of their worlds.
func (s *Set) Sizes() (pools, ends, conversations int) {
	for _, w := range append(s.worlds, s.acting) {
		ends, conversations = max(ends, len(w.ends)), max(conversations, w.homes.Len())
	}
	return len(s.pools), ends, conversations
}

// SpreadQuantile is a duration as it comes out of a histogram that holds nothing else.
func SpreadQuantile(ms float64) float64 {
	var h spreadOf
	h.add(ms)
	return h.quantile(0.5)
}
