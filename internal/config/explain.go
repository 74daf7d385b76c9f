package config

import (
	"fmt"
	"strconv"
)

// Explain keeps decisions for later inspection: GET /admin/decisions, the status page, warmpath explain, a file.
// Instead of the mapping, true or false is headers.
type Explain struct {
	// Headers adds endpoint and reason (X-Warmpath-Endpoint, X-Warmpath-Reason) to every answer, not only to requests
	// with X-Warmpath-Explain: 1.
	Headers bool `yaml:"headers"`
	// Keep is the number of newest decisions kept, each with up to 16 candidates, about 4 kB. 0 keeps none; the metric
	// warmpath_regret_seconds is then empty too.
	Keep int `yaml:"keep"`
	// KeepBytes bounds their memory.
	KeepBytes Bytes `yaml:"keep_bytes"`
	// File receives every decision as one line of JSON; "-" is standard output. Empty writes none.
	File string `yaml:"file"`
	// FileBytes is the size at which the file is renamed to FILE.1, replacing the previous one, and a new one is begun.
	FileBytes Bytes `yaml:"file_bytes"`
}

func defaultExplain() Explain {
	return Explain{Keep: 1000, KeepBytes: 16 << 20, FileBytes: 100e6}
}

// Bounds of the settings.
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
		faults = append(faults, fault("explain.keep_bytes", "is %s, must be at least %s",
			e.KeepBytes, Bytes(leastKeepBytes)))
	}
	if e.FileBytes < leastFileBytes {
		faults = append(faults, fault("explain.file_bytes", "is %s, must be at least %s",
			e.FileBytes, Bytes(leastFileBytes)))
	}
	if e.File != "" && e.Keep == 0 {
		faults = append(faults,
			fault("explain.file", "needs explain.keep above 0: decisions are written from the kept ones"))
	}
	return faults
}

// explainScalar reads a plain text instead of the mapping.
func explainScalar(into any, text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("want a mapping, or true or false for explain.headers, got %q", text)
	}
	into.(*Explain).Headers = on
	return nil
}
