package config

import "time"

// State keeps what the router has learnt in a file, so that it is warm after a restart: who is in which conversation, what caches are believed
// to hold, how fast engines are. It holds hashes and names, no text. A change takes a restart.
type State struct {
	// File to keep it in, one for each router. It is read at the start. Empty keeps nothing. A file there that is not warmpath's, or a later
	// version's, is left alone.
	File string `yaml:"file"`
	// Every is how often the file is written; it is once more when the router ends.
	Every time.Duration `yaml:"every"`
	// MaxBytes is the largest file. Beyond it the conversations that were used longest ago are left out.
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
		faults = append(faults, fault("state.max_bytes", "is %s, must be from %s to %s", s.MaxBytes, leastStateBytes, mostStateBytes))
	}
	for path, name := range map[string]string{"record.file": c.Record.File, "explain.file": c.Explain.File, "access_log.file": c.AccessLog.File} {
		if s.File != "" && s.File == name {
			faults = append(faults, fault("state.file", "is %s too", path))
		}
	}
	return faults
}
