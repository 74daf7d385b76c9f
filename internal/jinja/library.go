package jinja

// filterFuncs are the filters by name (jinja2.filters, and transformers' tojson).
func filterFuncs() map[string]filterFunc {
	out := map[string]filterFunc{"tojson": toJSON}
	for _, group := range []map[string]filterFunc{textFilters(), listFilters(), orderFilters(), selectFilters(), numberFilters()} {
		for name, fn := range group {
			out[name] = fn
		}
	}
	return out
}
