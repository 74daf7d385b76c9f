package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Record writes the router's own traffic to a file that warmpath simulate replays and fits engines to: sizes, times,
// outcomes, and common parts of prompts. It contains no text, and ids only as hashes with a secret salt.
type Record struct {
	// File to write, a line of JSON for each finished request. Empty writes none.
	File string `yaml:"file"`
	// FileBytes is the size at which the file is renamed to FILE.1, FILE.1 to FILE.2 and so on, and a new one is begun.
	// This also happens when the router starts.
	FileBytes Bytes `yaml:"file_bytes"`
	// Files is how many renamed files are kept.
	Files int `yaml:"files"`
	// Salt of the hashes, at least 16 bytes. Without it, or salt_file, a salt is drawn at each start, and hashes of two
	// recordings cannot be compared. A reader who has it can test whether a known text is among the prompts.
	Salt string `yaml:"salt" secret:"true"`
	// SaltFile has the salt instead; surrounding white space is removed.
	SaltFile string `yaml:"salt_file"`
}

func defaultRecord() Record { return Record{FileBytes: 100e6, Files: 4} }

const mostRecordFiles = 1000

func (c Config) checkRecord() []error {
	var faults []error
	r := &c.Record
	switch {
	case r.File == "-":
		faults = append(faults, fault("record.file", "is \"-\": it is renamed when it is full, and must be a file"))
	case r.File != "" && r.File == c.Explain.File:
		faults = append(faults, fault("record.file", "is explain.file too"))
	}
	if r.FileBytes < leastFileBytes {
		faults = append(faults, fault("record.file_bytes", "is %s, must be at least %s",
			r.FileBytes, Bytes(leastFileBytes)))
	}
	if r.Files < 0 || r.Files > mostRecordFiles {
		faults = append(faults, fault("record.files", "is %d, must be from 0 to %d", r.Files, mostRecordFiles))
	}
	faults = append(faults, r.secret().check()...)
	return faults
}

// checkOutput reports a file that cannot be created: its directory is missing, or it is a directory. It writes nothing.
func checkOutput(path, name string) error {
	if name == "" || name == "-" {
		return nil
	}
	cannot := func(why error) error { return fault(path, "%w", &fs.PathError{Op: "open", Path: name, Err: why}) }
	if at, err := os.Stat(name); err == nil && at.IsDir() {
		return cannot(syscall.EISDIR)
	}
	at, err := os.Stat(filepath.Dir(name))
	if fault := (*fs.PathError)(nil); errors.As(err, &fault) {
		return cannot(fault.Err)
	}
	if err == nil && !at.IsDir() {
		return cannot(syscall.ENOTDIR)
	}
	return err
}

// SaltBytes is the salt, read from its file if it is there; nil if one must be drawn.
func (r Record) SaltBytes() ([]byte, error) {
	salt, err := r.secret().read()
	return []byte(salt), err
}

func (r Record) secret() secret { return secret{"record.salt", r.Salt, r.SaltFile, leastSaltKey} }
