package config

import (
	"strings"
	"testing"
)

// TestPickerIsSaid: a picker that others than the gateway can reach is warned of.
func TestPickerIsSaid(t *testing.T) {
	const clientsNamed = "extproc: {listen: 0.0.0.0:9002, tls: true}\ntls: {cert: a, key: b, client_ca: c}"
	for text, want := range map[string]bool{
		"extproc: {listen: 0.0.0.0:9002}":            true,
		"extproc: {listen: 0.0.0.0:9002, tls: true}": true,
		"extproc: {listen: 127.0.0.1:9002}":          false,
		"extproc: {listen: off}":                     false,
		clientsNamed:                                 false,
	} {
		c, err := Parse("w.yaml", []byte(text+"\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(strings.Join(c.Warnings(), "\n"), "extproc.listen"); said != want {
			t.Errorf("%s: warned %v, want %v", text, said, want)
		}
	}
}

// TestExtProcFaults: what cannot work is a fault with its place.
func TestExtProcFaults(t *testing.T) {
	for text, want := range map[string]string{
		"extproc: {listen: nowhere}":            "extproc.listen",
		"extproc: {fallbacks: 9}":               "extproc.fallbacks",
		"extproc: {objectives: {chat: utmost}}": "extproc.objectives.chat",
	} {
		c, err := Parse("w.yaml", []byte(text+"\n"), nil)
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
