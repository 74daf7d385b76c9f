package prompt

import "github.com/warmpath/warmpath/prompt/jsonscan"

// Models lists every model and adapter that a body may name to an engine, with each value of a repeated member, since
// engines differ in which they take: model, SGLang's lora_path, the name and the path in lora_request (TensorRT-LLM),
// for /api/show name, in large letters too (Ollama is written in Go), and those that a router in an engine's place
// goes on to: models (OpenRouter), fallbacks and the like (LiteLLM), and any of these in extra_body, which LiteLLM
// passes on. Of APIs that are not known it also lists model within other members, as batches and sessions of the
// realtime API have it, but where a model or a client made up the names.
//
// base reports whether an engine may compute its own model, since the member by which it is told another one is not
// there, or anything but a name stands in it: null, or in a list. That member is model, but lora_path in SGLang's own
// API, which knows no model (sglang, GenerateReqInput and EmbeddingReqInput in io_struct.py).
func Models(api API, path string, body []byte) (names []string, base bool) {
	m := models{inner: api == Other, show: path == "/api/show", body: body, by: "model"}
	if api == Generate || path == "/encode" {
		m.by = "lora_path"
	}
	m.c.Reset(body)
	whole := m.c.Next() == jsonscan.Object && m.object(1)
	return m.names, !whole || !m.there || m.nameless
}

// models reads one body.
type models struct {
	inner, show bool   // it names models within other members, and by name
	by          string // the member by which an engine is told a model
	there       bool   // that member is there
	nameless    bool   // anything but a name stands in it
	extra       int    // how many extra_body are open
	body        []byte
	c           jsonscan.Cursor
	names       []string
}

// object reads an object that has begun. It reports false at a fault.
func (m *models) object(depth int) bool {
	kind := m.c.Next()
	for ; kind == jsonscan.Key; kind = m.c.Next() {
		name, value, ok := string(decoded(&m.c)), m.c.Next(), false
		switch {
		case name == "model", depth == 1 && (name == "lora_path" || m.show && folds(name, "name")):
			var named bool
			if named, ok = m.value(value, depth); depth == 1 && name == m.by {
				m.there, m.nameless = true, m.nameless || !named
			}
		case depth == 1 && name == "lora_request" && value == jsonscan.Object:
			ok = m.adapter()
		case (depth == 1 || m.inner) && goesOn(name):
			ok = m.further(value, 0)
		case depth == 1 && name == "extra_body" && value == jsonscan.Object && m.extra < 4:
			there, nameless := m.there, m.nameless
			m.extra++
			ok = m.object(1)
			m.extra, m.there, m.nameless = m.extra-1, there, nameless
		case m.inner && depth < deepest && !made(name, 1):
			ok = m.within(value, depth)
		default:
			ok = m.c.Skip(value)
		}
		if !ok {
			return false
		}
	}
	return kind == jsonscan.ObjectEnd
}

// value reads a name, or a list of names. named reports whether it has nothing but names.
func (m *models) value(kind jsonscan.Kind, depth int) (named, ok bool) {
	switch kind {
	case jsonscan.String:
		return m.name(), true
	case jsonscan.Array:
		all, empty := true, true
		for kind = m.c.Next(); kind != jsonscan.ArrayEnd; kind = m.c.Next() {
			if empty = false; kind == jsonscan.String {
				all = m.name() && all
			} else if all = false; !m.c.Skip(kind) {
				return false, false
			}
		}
		return all && !empty, true
	default:
		return false, m.within(kind, depth)
	}
}

// name takes the name that stands here, and reports whether it is one.
func (m *models) name() bool {
	name := jsonscan.Decode(m.body, m.c.At())
	m.names = append(m.names, name)
	return name != ""
}

// goesOn reports whether a member names models for when the first fails.
func goesOn(name string) bool {
	switch name {
	case "models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks":
		return true
	}
	return false
}

// further reads such a member: a name, or names in a list, in the lists of a mapping from models, or as model of an
// object that overrides members of the request.
func (m *models) further(kind jsonscan.Kind, depth int) bool {
	switch {
	case kind == jsonscan.String:
		m.name()
		return true
	case kind == jsonscan.Array && depth < deepest:
		for kind = m.c.Next(); kind != jsonscan.ArrayEnd; kind = m.c.Next() {
			if !m.further(kind, depth+1) {
				return false
			}
		}
		return true
	case kind == jsonscan.Object && depth < deepest:
		for kind = m.c.Next(); kind == jsonscan.Key; kind = m.c.Next() {
			names := string(decoded(&m.c)) == "model"
			if value := m.c.Next(); value == jsonscan.Array || names {
				if !m.further(value, depth+1) {
					return false
				}
			} else if !m.c.Skip(value) {
				return false
			}
		}
		return kind == jsonscan.ObjectEnd
	default:
		return m.c.Skip(kind)
	}
}

// adapter reads a lora_request.
func (m *models) adapter() bool {
	kind := m.c.Next()
	for ; kind == jsonscan.Key; kind = m.c.Next() {
		name, value := string(decoded(&m.c)), m.c.Next()
		switch {
		case value == jsonscan.String &&
			(name == "lora_name" || name == "name" || name == "lora_path" || name == "path"):
			m.names = append(m.names, jsonscan.Decode(m.body, m.c.At()))
		case !m.c.Skip(value):
			return false
		}
	}
	return kind == jsonscan.ObjectEnd
}

// within reads a value in which models may be named, if the API has such.
func (m *models) within(kind jsonscan.Kind, depth int) bool {
	switch {
	case kind == jsonscan.Object && m.inner && depth < deepest:
		return m.object(depth + 1)
	case kind == jsonscan.Array && m.inner && depth < deepest:
		for kind = m.c.Next(); kind != jsonscan.ArrayEnd; kind = m.c.Next() {
			if !m.within(kind, depth+1) {
				return false
			}
		}
		return true
	default:
		return m.c.Skip(kind)
	}
}
