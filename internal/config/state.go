package config

import "time"

// State keeps what the router has learnt in a file, so that it is warm after a restart: conversations, predicted cache
// contents, speeds of engines. It contains hashes and names, no text. A change needs a restart.
type State struct {
	// File for the state, one for each router. It is read at the start. Empty keeps nothing. A file that is not
	// warmpath's, or of a later version, is not touched.
	File string `yaml:"file"`
	// Every is how often the file is written; it is also written when the router ends.
	Every time.Duration `yaml:"every"`
	// MaxBytes is the largest file. Beyond it the least recently used conversations are left out.
	MaxBytes Bytes `yaml:"max_bytes"`
}

func defaultState() State { return State{Every: time.Minute, MaxBytes: 256e6} }

const (
	leastStateEvery = time.Second
	leastStateBytes = Bytes(1e6)
	mostStateBytes  = Bytes(4e9)
)

func (c Config) checkState() (faults []error) {
	s := &c.State
	if s.Every < leastStateEvery {
		faults = append(faults, fault("state.every", "is %v, must be at least %v", s.Every, leastStateEvery))
	}
	if s.MaxBytes < leastStateBytes || s.MaxBytes > mostStateBytes {
		faults = append(faults, fault("state.max_bytes", "is %s, must be from %s to %s",
			s.MaxBytes, leastStateBytes, mostStateBytes))
	}
	for path, name := range map[string]string{
		"record.file": c.Record.File, "explain.file": c.Explain.File, "access_log.file": c.AccessLog.File,
	} {
		if s.File != "" && s.File == name {
			faults = append(faults, fault("state.file", "is %s too", path))
		}
	}
	return faults
}
