package handover_test

import (
	"testing"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
)

// TestSidecarIsTold: the prefiller's host and port, whatever form its URL has.
func TestSidecarIsTold(t *testing.T) {
	for url, want := range map[string]string{
		"http://10.0.0.1:8000": "10.0.0.1:8000", "http://10.0.0.1": "10.0.0.1:80", "https://engine/base": "engine:443",
		"http://[fd00::1]":        "[fd00::1]:80",
		"http://[fd00::1]:8000/v": "[fd00::1]:8000", "unix:///run/e.sock": "", "http://": "",
	} {
		m, err := handover.Sidecar{}.Decode(&handover.Request{Prefiller: fleet.Endpoint{Name: "p", URL: url}}, nil)
		got := ""
		if len(m.Header) == 1 {
			got = m.Header[0].Value
		}
		if got != want || (err != nil) != (want == "") || len(m.Set) > 0 {
			t.Errorf("%s: %q %v", url, got, err)
		}
	}
}
