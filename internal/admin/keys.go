package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Key is an API key of clients, of which nobody can make the key itself.
type Key struct {
	ID     string    `json:"id"` // the first 12 digits of its SHA-256
	Tenant string    `json:"tenant"`
	Name   string    `json:"name,omitempty"`
	Models []string  `json:"models,omitempty"` // that it may use; none for all
	Ends   time.Time `json:"ends,omitzero"`
	Ended  bool      `json:"ended,omitempty"`
	Used   time.Time `json:"last_used,omitzero"` // since the router began
}

const (
	keysByDefault = 1000
	mostKeys      = 20_000 // in one answer
)

// keys answers with the API keys of clients: those that were used last, first.
func (a *Admin) keys(w http.ResponseWriter, r *http.Request) {
	if a.c.Keys == nil {
		fail(http.StatusNotFound, "not_configured",
			"this router has no API keys; set tenants.api_keys or tenants.keys_file").write(w)
		return
	}
	most, query := keysByDefault, r.URL.Query()
	if text := query.Get("last"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostKeys {
			fail(http.StatusBadRequest, "bad_query", "last: want a number from 1 to %d, got %.40q",
				mostKeys, text).write(w)
			return
		}
		most = n
	}
	all, now := a.c.Keys(), a.c.Now()
	if tenant, only := query.Get("tenant"), query.Has("tenant"); only {
		all = slices.DeleteFunc(all, func(k Key) bool { return k.Tenant != tenant })
	}
	for i := range all {
		all[i].Ended = !all[i].Ends.IsZero() && !now.Before(all[i].Ends)
	}
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
	})
	shown := all[:min(most, len(all))]
	writeJSON(w, http.StatusOK, map[string]any{"keys": append([]Key{}, shown...), "more": len(all) - len(shown)})
}
