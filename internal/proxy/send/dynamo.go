package send

import (
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
)

// nvext is the member of what Dynamo, which may stand in an engine's place, reads beside OpenAI's API (its
// protocols/openai/nvext.rs).
const nvext = "nvext"

// dynamo adds the edit that takes out of nvext what the client may not say: which of Dynamo's workers computes, which
// is a router's to say, and how important its request is. Headers that say the same are withheld alike.
func (a *Outgoing) dynamo(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	if c.Body == nil || c.Prompt.InsertAt == 0 || rawjson.IsNull(c.member(nvext)) {
		return edits
	}
	picks, hurries := false, false
	out, ok := rawjson.RewriteObject(nil, c.member(nvext), func(name string, value []byte) ([]byte, []byte) {
		switch rawjson.Decoded(name) {
		case "backend_instance_id", "prefill_worker_id", "decode_worker_id", "dp_rank", "prefill_dp_rank":
			if !a.trusts() {
				picks = true
				return nil, nil
			}
		case "agent_hints":
			if patient, some := withoutPriority(value); some && c.CapsPriority {
				hurries, value = true, patient
			}
		}
		return []byte(name), value
	})
	if picks {
		a.s.noteWithheld(c, []handover.Member{{Name: nvext}})
	}
	if ok && (picks || hurries) {
		return append(edits, c.Prompt.SetField(nvext, out))
	}
	return edits
}

// withoutPriority is Dynamo's agent_hints without a priority that may put the request before others; found is whether
// there was one. The highest comes first, and 0 is that of a request without one.
func withoutPriority(hints []byte) (out []byte, found bool) {
	out, ok := rawjson.RewriteObject(nil, hints, func(name string, value []byte) ([]byte, []byte) {
		switch rawjson.Decoded(name) {
		case "priority", "strict_priority", "latency_sensitivity":
			if sooner(string(value), fleet.Precedence{Order: fleet.HighestFirst}) {
				found = true
				return nil, nil
			}
		}
		return []byte(name), value
	})
	return out, ok && found
}
