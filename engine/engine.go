// Package engine is the kinds of engines: what to ask each kind about its health, models, capacity and load, what its answers mean, and how
// one of its ranks or slots is addressed. There is one file for each kind; kinds.go lists them. It is pure: bytes in, values out, never a
// socket. Who asks and when is for the probe and the proxy; engine/answer reads answers to requests, engine/handover is disaggregated
// serving, engine/kv decodes KV events.
package engine

import (
	"github.com/warmpath/warmpath/fleet"
)

// Dialect is how one kind of engine is spoken to. Implementations are stateless values and safe for concurrent use.
type Dialect interface {
	// Kind names the kind of engine.
	Kind() fleet.Kind
	// Alive is the cheapest question that tells whether the engine serves. It never costs a generation.
	Alive() Ask
	// Asks are the slow questions: models, capacity, version. They are asked in this order, folding into one report.
	Asks() []Ask
	// LoadAsks are the questions about load; none when the engine does not tell.
	LoadAsks() []Ask
	// Read folds one answer into the report of one part of the engine. What the answer lacks stays as it was. The
	// error says that the answer was of no use; the report is then unchanged, except that the answer to Alive always
	// sets Healthy and Detail.
	Read(a Answer, part fleet.Part, r *fleet.Report) error
	// Supports returns an error when the kind of engine has no way to address the part.
	Supports(part fleet.Part) error
	// Address says how a request is sent to the part; the zero Addressing for the whole engine.
	Address(part fleet.Part) Addressing
}

// The names of questions.
const (
	AskAlive   = "alive"
	AskModels  = "models"
	AskInfo    = "info"
	AskVersion = "version"
	AskLoad    = "load"
	AskMetrics = "metrics"
	AskEvents  = "kv_event_sources"
)

// Ask is one question: a GET of a path relative to the engine's address.
type Ask struct {
	Name  string   // one of the Ask constants
	Path  string   // with a leading slash, query included
	Older []string // paths to try in turn when the one before is not there: see Missing
}

// Answer is what an engine answered.
type Answer struct {
	Ask    string // Ask.Name
	Path   string // the path that answered: Ask.Path or one of Ask.Older
	Status int    // HTTP status
	Body   []byte // at most MaxAnswerBytes
}

// MaxAnswerBytes bounds the body of an answer to a question. SGLang's /server_info is 40 kB, its /metrics 100 kB,
// vLLM's /metrics of 16 ranks about 2 MB.
const MaxAnswerBytes = 4 << 20

// Missing reports whether a status says that the engine does not have the path at all, so that an older path may
// do: 404, 405, and llama.cpp's 501 for a feature that is switched off.
func Missing(status int) bool { return status == 404 || status == 405 || status == 501 }

// Addressing is how a request reaches one rank or slot. All parts that are set apply.
type Addressing struct {
	Header, Value string // header to set, "" for none
	Field         string // top-level body field to set, "" for none
	JSON          []byte // its value; must not be changed
}
