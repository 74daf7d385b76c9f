package config

import (
	"strings"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// secretBytes is the largest file with a secret.
const secretBytes = 4 << 20

// secret is a setting that is given itself, or in a file.
type secret struct {
	path        string // of the setting; the file's is the same with _file
	given, file string
	least       int // bytes
}

// check reports one that is given twice, or can be guessed.
func (s secret) check() []error {
	key := s.path[strings.LastIndex(s.path, ".")+1:]
	switch {
	case s.given != "" && s.file != "":
		return []error{fault(s.path, "give %s or %s_file, not both", key, key)}
	case s.given != "" && len(s.given) < s.least:
		return []error{
			fault(s.path, "has %d bytes, must be %d or more: make one by openssl rand -hex 32", len(s.given), s.least),
		}
	}
	return nil
}

// read is the secret, or what its file has, without white space around it.
func (s secret) read() (string, error) {
	if s.file == "" {
		return s.given, nil
	}
	b, err := wholefile.Read(s.file, secretBytes)
	if err != nil {
		return "", fault(s.path+"_file", "%w", err)
	}
	text := wholefile.Trim(b)
	switch {
	case text == "" && s.least > 0:
		return "", fault(s.path+"_file", "%s is empty", s.file)
	case len(text) < s.least:
		return "", fault(s.path+"_file", "%s holds %d bytes, must be %d or more: make one by openssl rand -hex 32",
			s.file, len(text), s.least)
	}
	return text, nil
}
