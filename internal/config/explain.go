package config

import (
	"fmt"
	"strconv"
)

// Explain says how decisions can be looked at afterwards: GET /admin/decisions, the status page, warmpath explain, a file. In
// place of the mapping, true or false stands for headers.
type Explain struct {
	// Headers tells endpoint and reason (X-Warmpath-Endpoint, X-Warmpath-Reason) in the headers of every answer, not only
	// when a request asks for it with X-Warmpath-Explain: 1.
	Headers bool `yaml:"headers"`
	// Keep is how many of the newest decisions are kept, each with up to 16 candidates, some 4 kB. 0 keeps none; the
	// metric warmpath_regret_seconds is then empty too.
	Keep int `yaml:"keep"`
	// KeepBytes bounds the memory for them.
	KeepBytes Bytes `yaml:"keep_bytes"`
	// File gets every decision as one line of JSON; "-" is standard output. Empty writes none.
	File string `yaml:"file"`
	// FileBytes is the size at which the file is renamed to FILE.1, in place of the one before, and begun anew.
	FileBytes Bytes `yaml:"file_bytes"`
}

func defaultExplain() Explain {
	return Explain{Keep: 1000, KeepBytes: 16 << 20, FileBytes: 100e6}
}

// The bounds of what can be asked for.
const (
	mostKept       = 100_000
	leastKeepBytes = 64 << 10
	leastFileBytes = 64 << 10
)

func (e *Explain) check() []error {
	var faults []error
	if e.Keep < 0 || e.Keep > mostKept {
		faults = append(faults, fault("explain.keep", "is %d, must be from 0 to %d", e.Keep, mostKept))
	}
	if e.KeepBytes < leastKeepBytes {
		faults = append(faults, fault("explain.keep_bytes", "is %s, must be at least %s", e.KeepBytes, Bytes(leastKeepBytes)))
	}
	if e.FileBytes < leastFileBytes {
		faults = append(faults, fault("explain.file_bytes", "is %s, must be at least %s", e.FileBytes, Bytes(leastFileBytes)))
	}
	if e.File != "" && e.Keep == 0 {
		faults = append(faults, fault("explain.file", "needs explain.keep above 0: what is kept is the queue of what is written"))
	}
	return faults
}

// explainScalar reads what stands in place of the mapping.
func explainScalar(into any, text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("want a mapping, or true or false for explain.headers, got %q", text)
	}
	into.(*Explain).Headers = on
	return nil
}
