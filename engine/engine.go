// Package engine defines the kinds of engines: the questions about health, models, capacity and load, the meaning of
// the answers, and how a rank or slot is addressed. There is one file per kind; kinds.go lists them.
//
// It owns each kind's paths, figures and addressing. It promises that no question causes a generation, and that an
// unknown or damaged answer changes no figure in a report. It never opens a socket: the probe and the proxy send the
// questions. engine/answer reads answers to requests, engine/handover is disaggregated serving, engine/kv decodes KV
// events.
package engine

import (
	"github.com/warmpath/warmpath/fleet"
)

// Dialect is the protocol of one kind of engine. Implementations are stateless values and safe for concurrent use.
type Dialect interface {
	// Kind names the kind of engine.
	Kind() fleet.Kind
	// Alive is the cheapest question that shows whether the engine serves. It never causes a generation.
	Alive() Ask
	// Asks are the expensive questions: models, capacity, version. They are asked in this order and merged into one
	// report.
	Asks() []Ask
	// LoadAsks are the questions about load; none if the engine does not report it.
	LoadAsks() []Ask
	// Read merges one answer into the report of one part of the engine. What the answer lacks is unchanged. An error
	// means that the answer was useless; the report is then unchanged, except that the answer to Alive always sets
	// Healthy and Detail.
	Read(a Answer, part fleet.Part, r *fleet.Report) error
	// Supports returns an error if this kind of engine cannot address the part.
	Supports(part fleet.Part) error
	// Address is how a request is sent to the part; zero for the whole engine.
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
	AskSleep   = "sleep"
	AskPaused  = "paused"

	AskResident = "resident" // which models are in memory
)

// Ask is one question: a GET of a path relative to the engine's address.
type Ask struct {
	Name  string   // one of the Ask constants
	Path  string   // with a leading slash, query included
	Older []string // paths to try if the previous one does not exist: see Missing
	Works bool     // the engine takes it for work: one that sleeps when idle is kept awake, or woken, by it
}

// Answer is an engine's answer to an Ask.
type Answer struct {
	Ask    string // Ask.Name
	Path   string // the path that answered: Ask.Path or one of Ask.Older
	Status int    // HTTP status
	Body   []byte // at most MaxAnswerBytes
}

// MaxAnswerBytes bounds the body of an answer to a question. SGLang's /server_info is 40 kB, its /metrics 100 kB,
// vLLM's /metrics of 16 ranks about 2 MB.
const MaxAnswerBytes = 4 << 20

// Missing reports whether a status means that the path does not exist, so that an older path should be tried: 404, 405,
// and llama.cpp's 501 for a disabled feature.
func Missing(status int) bool { return status == 404 || status == 405 || status == 501 }

// Addressing is how a request reaches one rank or slot. All parts that are set apply.
type Addressing struct {
	Header, Value string // header to set, "" for none
	Field         string // top-level body field to set, "" for none
	JSON          []byte // its value; must not be changed
}
