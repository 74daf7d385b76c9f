package prompt

import "github.com/warmpath/warmpath/prompt/jsonscan"

// deepest is how deep a body is searched. In the APIs that are known the deepest reference, to a file within the output
// of a tool within a message, stands ten levels down; what is deeper is text to them.
const deepest = 24

// Refers lists the ids by which a body refers to what engines keep for a client: earlier responses and items of them,
// conversations of the Responses API, files, stores and containers, and sessions of SGLang. Of a repeated member it
// lists every value, since engines differ in which they take. What a model or a client makes up itself (arguments,
// schemas, metadata) is passed over. A body that is not a JSON object refers to nothing.
//
// media is where the body names images, audio and video. An engine keeps these under their names, and uses one for
// every request that names it.
//
// The error is ErrNamed where the body has more than maxNamed ids and names, those of the requests of a batch included:
// it is not read on.
func Refers(api API, path string, body []byte) (ids []string, media Media, err error) {
	r := refs{api: api, path: path, body: body}
	r.c.Reset(body)
	if r.c.Next() == jsonscan.Object {
		r.object(1, false)
	}
	if r.noted > maxNamed {
		err = ErrNamed
	}
	return r.ids, r.media, err
}

// maxNamed bounds the ids and names in a body, each of which takes some hundred bytes for a moment. OpenAI takes 1,500
// images in a request, vLLM 999 of a kind without another --limit-mm-per-prompt.
const maxNamed = 16384

// Media is where a body names images, audio and video.
type Media struct {
	// Names are the client's own: uuid of a part of a message (vLLM 0.33.0, chat_message.py), and mm_hashes of
	// /inference/v1/generate.
	Names []jsonscan.Span
	// Digests are said to be those of the contents: content_hash of an image (SGLang 0.5.23, which takes the client's
	// word with --trust-mm-content-hashes).
	Digests []jsonscan.Span
}

// RefersBy reports whether a member, or a field of a form or query, of that name has an id of what an engine keeps, or
// several.
func RefersBy(name string) bool {
	switch name {
	case "previous_response_id", "response_id", "input_file_id", "file_id", "file_ids", "training_file",
		"validation_file", "vector_store_id", "vector_store_ids", "container", "container_id":
		return true
	}
	return false
}

// refs reads one body.
type refs struct {
	api  API
	path string
	body []byte
	c    jsonscan.Cursor

	ids   []string
	media Media
	noted int // ids and names so far
}

// counts counts an id or a name. It reports false where that is one too many.
func (r *refs) counts() bool {
	r.noted++
	return r.noted <= maxNamed
}

// id notes an id.
func (r *refs) id(id string) bool {
	r.ids = append(r.ids, id)
	return r.counts()
}

// medium notes a name of what the cursor has read.
func (r *refs) medium(list *[]jsonscan.Span) bool {
	*list = append(*list, r.c.At())
	return r.counts()
}

// made reports whether a member holds what a model or a client made up: names in it mean nothing to an engine. Within a
// message, input is what a tool was called with (Anthropic's API).
func made(name string, depth int) bool {
	switch name {
	case "arguments", "parameters", "metadata", "chat_template_kwargs", "mm_processor_kwargs", "vllm_xargs",
		"documents", "env", "headers",
		// llama.cpp, vLLM, Ollama have schemas there
		"input_schema", "schema", "json_schema", "guided_json", "structured_outputs", "format":
		return true
	case "input":
		return depth > 1
	}
	return false
}

// refers reports whether a member has such an id. A conversation is an engine's own only in the Responses API.
func (r *refs) refers(name string, depth int) bool {
	switch name {
	case "session_params":
		return depth == 1
	case "conversation":
		return depth == 1 && (r.api == Responses || r.api == Other)
	case "session_id":
		return depth == 1 && r.path == "/close_session"
	}
	return RefersBy(name)
}

// object reads an object that has begun. item says that it is an item of the Responses API's input, which may be a
// reference: with that type, or with nothing but an id. It reports false at a fault.
func (r *refs) object(depth int, item bool) bool {
	var ids []string
	reference, typed, others := false, false, false
	kindOf := r.c.Next()
	for ; kindOf == jsonscan.Key; kindOf = r.c.Next() {
		name, value := string(decoded(&r.c)), r.c.Next()
		switch {
		case value == jsonscan.String && (name == "id" || name == "type"):
			if text := jsonscan.Decode(r.body, r.c.At()); name == "id" {
				if ids = append(ids, text); len(ids) > maxNamed { // most ids are no references, and do not count
					r.noted += len(ids)
					return false
				}
			} else {
				reference, typed = reference || text == "item_reference", true
			}
			continue
		case depth > 1 && (name == "uuid" || name == "mm_hashes"):
			if !r.names(value, name == "mm_hashes") {
				return false
			}
		case depth > 1 && name == "content_hash" && value == jsonscan.String:
			if !r.medium(&r.media.Digests) {
				return false
			}
		case depth == 1 && (name == "rid" || name == "request_id") && value == jsonscan.Array: // of a batch (SGLang)
			if !r.texts(r.counts) {
				return false
			}
		case r.refers(name, depth):
			if !r.value(value, depth) {
				return false
			}
		case made(name, depth) || depth >= deepest:
			if !r.c.Skip(value) {
				return false
			}
		case name == "variables": // of a template of the Responses API
			if !r.values(value, depth+1) {
				return false
			}
		default:
			if !r.nested(value, depth, name == "input" && r.api == Responses) {
				return false
			}
		}
		others = true
	}
	if reference || item && !typed && !others {
		r.ids = append(r.ids, ids...)
		r.noted += len(ids)
	}
	return kindOf == jsonscan.ObjectEnd && r.noted <= maxNamed
}

// names notes where a value that names media stands, or all texts in it. vLLM takes a uuid that is no text as one.
func (r *refs) names(kind jsonscan.Kind, all bool) bool {
	switch kind {
	case jsonscan.String, jsonscan.Number, jsonscan.True, jsonscan.False:
		return r.medium(&r.media.Names)
	case jsonscan.Object, jsonscan.Array:
		if !all {
			return r.c.Skip(kind)
		}
		return r.texts(func() bool { return r.medium(&r.media.Names) })
	default:
		return r.c.Skip(kind)
	}
}

// texts reads an array or object that has begun, and calls f at each text in it until f reports false.
func (r *refs) texts(f func() bool) bool {
	for within := r.c.Depth(); r.c.Depth() >= within; {
		switch r.c.Next() {
		case jsonscan.String:
			if !f() {
				return false
			}
		case jsonscan.Bad:
			return false
		default:
		}
	}
	return true
}

// nested reads a value in which references may stand; input says that it is the input of the Responses API.
func (r *refs) nested(kind jsonscan.Kind, depth int, input bool) bool {
	switch kind {
	case jsonscan.Object:
		return r.object(depth+1, false)
	case jsonscan.Array:
		for kind = r.c.Next(); kind != jsonscan.ArrayEnd; kind = r.c.Next() {
			switch {
			case kind == jsonscan.Object && depth < deepest:
				if !r.object(depth+2, input) {
					return false
				}
			case kind == jsonscan.Array && depth < deepest:
				if !r.nested(kind, depth+1, false) {
					return false
				}
			case !r.c.Skip(kind):
				return false
			}
		}
		return true
	default:
		return r.c.Skip(kind)
	}
}

// values reads an object whose names a client made up, and in whose values references may stand.
func (r *refs) values(kind jsonscan.Kind, depth int) bool {
	if kind != jsonscan.Object {
		return r.nested(kind, depth, false)
	}
	for kind = r.c.Next(); kind == jsonscan.Key; kind = r.c.Next() {
		if !r.nested(r.c.Next(), depth, false) {
			return false
		}
	}
	return kind == jsonscan.ObjectEnd
}

// value reads the value of a member that refers: an id, a list of ids, or an object with an id, in which further
// references may stand.
func (r *refs) value(kind jsonscan.Kind, depth int) bool {
	switch kind {
	case jsonscan.String:
		if id := jsonscan.Decode(r.body, r.c.At()); id != "" {
			return r.id(id)
		}
		return true
	case jsonscan.Array:
		for kind = r.c.Next(); kind != jsonscan.ArrayEnd; kind = r.c.Next() {
			if kind != jsonscan.String && !r.c.Skip(kind) ||
				kind == jsonscan.String && !r.id(jsonscan.Decode(r.body, r.c.At())) {
				return false
			}
		}
		return true
	case jsonscan.Object:
		return r.named(depth + 1)
	default:
		return r.c.Skip(kind)
	}
}

// named reads an object in the place of an id.
func (r *refs) named(depth int) bool {
	kind := r.c.Next()
	for ; kind == jsonscan.Key; kind = r.c.Next() {
		name, value := string(decoded(&r.c)), r.c.Next()
		switch {
		case value == jsonscan.String && name == "id":
			if !r.id(jsonscan.Decode(r.body, r.c.At())) {
				return false
			}
		case RefersBy(name) && depth < deepest:
			if !r.value(value, depth) {
				return false
			}
		case !r.c.Skip(value):
			return false
		}
	}
	return kind == jsonscan.ObjectEnd
}
