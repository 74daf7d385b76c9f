package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// models lists the base models and the adapters.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	if s.dialect.lanes && s.loading() {
		s.stillLoading(w)
		return
	}
	var data []any
	add := func(id string, parent any) {
		m := map[string]any{
			"id": id, "object": "model", "created": s.started.Unix(), "owned_by": s.dialect.ownedBy,
			"root": id, "parent": parent,
		}
		switch s.opts.Dialect {
		case fleet.KindVLLM:
			m["max_model_len"] = s.opts.ContextTokens
			m["permission"] = []any{map[string]any{
				"id": "modelperm-" + id, "object": "model_permission", "created": s.started.Unix(),
				"allow_sampling": true, "allow_view": true, "organization": "*", "is_blocking": false,
			}}
		case fleet.KindSGLang:
			m["max_model_len"] = s.opts.ContextTokens
		case fleet.KindLlamaCpp:
			m["meta"] = map[string]any{
				"n_ctx": s.opts.ContextTokens, "n_ctx_train": s.opts.ContextTokens,
				"n_vocab": 32000, "n_params": 0, "size": 0,
			}
		}
		data = append(data, m)
	}
	for _, id := range s.opts.Models {
		add(id, nil)
	}
	for _, id := range s.opts.Adapters {
		add(id, s.opts.Models[0])
	}
	api.WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
}
