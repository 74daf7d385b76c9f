package jinja

import "maps"

// filterFuncs are the filters by name (jinja2.filters, and transformers' tojson).
func filterFuncs() map[string]filterFunc {
	out := map[string]filterFunc{"tojson": toJSON}
	for _, group := range []map[string]filterFunc{
		textFilters(), listFilters(), orderFilters(), selectFilters(), numberFilters(),
	} {
		maps.Copy(out, group)
	}
	return out
}
