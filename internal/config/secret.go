package config

import (
	"os"
	"strings"
)

// secretIn is a secret, or what its file has, without white space around it: at least so many bytes.
func secretIn(path, secret, file string, least int) (string, error) {
	if file == "" {
		return secret, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fault(path, "%w", err)
	}
	secret = strings.TrimSpace(string(b))
	switch {
	case secret == "" && least > 0:
		return "", fault(path, "%s is empty", file)
	case len(secret) < least:
		return "", fault(path, "%s holds %d bytes, must be %d or more: make one by openssl rand -hex 32", file, len(secret), least)
	}
	return secret, nil
}
