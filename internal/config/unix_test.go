package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestUnixListeners: sockets may stand where addresses may, need no token and are no reason for a warning.
func TestUnixListeners(t *testing.T) {
	f := func(text, fault string) {
		t.Helper()
		c, err := config.Parse("w.yaml", []byte(text+"\nendpoints: ['unix:///run/vllm.sock']\n"), nil)
		switch {
		case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
			t.Errorf("%s: %v, want %q", text, err, fault)
		case fault == "" && (err != nil || len(c.Warnings()) > 0):
			t.Errorf("%s: %v, %q", text, err, c.Warnings())
		}
	}
	f("listen: unix:///run/w.sock", "")
	f("listen: 'unix:///run/w.sock?mode=0666'\nadmin: {listen: 'unix:///run/a.sock'}", "")
	f("listen: unix://run/w.sock", "w.yaml:1:1: listen: ")
	f("listen: unix:///run/w.sock\nadmin: {listen: 'unix:///run/w.sock?mode=0600'}",
		"admin.listen: unix:///run/w.sock?mode=0600 is taken by listen")
	f("admin: {listen: 'unix:///run/w.sock?mode=x'}", "admin.listen")
}
