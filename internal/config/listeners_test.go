package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestListenersApart: check says of two listeners that want one place what serve would say when it opens the second.
func TestListenersApart(t *testing.T) {
	for text, want := range map[string]string{
		"listen: 'localhost:1'\nadmin: {listen: 'localhost:1'}":                    "2:9: admin.listen",
		"listen: '127.0.0.1:1'\nadmin: {listen: 'localhost:1'}":                    "admin.listen",
		"listen: '0.0.0.0:1'\nextproc: {listen: '127.0.0.1:1'}":                    "extproc.listen",
		"listen: '127.0.0.1:1'\nextproc: {listen: ':1'}":                           "extproc.listen",
		"listen: '[::]:1'\nextproc: {listen: '10.0.0.1:1'}":                        "extproc.listen",
		"listen: 'host:1'\nextproc: {listen: 'host:1'}":                            "extproc.listen",
		"listen: 'host:1'\nextproc: {listen: '0.0.0.0:1'}":                         "extproc.listen",
		"extproc: {listen: '127.0.0.1:1'}\nlease: {listen: '127.0.0.1:1'}":         "lease.listen",
		"extproc: {listen: '127.0.0.1:1'}\npeers: {listen: '127.0.0.1:1'}":         "extproc.listen",
		"listen: ':6'\nkv_events: {listen: 'tcp://*:5', listen_ranks: 2}":          "kv_events.listen: *:6 is taken",
		"listen: ':7'\nkv_events: {listen: 'tcp://*:5', listen_ranks: 2}":          "",
		"listen: ':7'\nkv_events: {listen: 'tcp://*:5', listen_ranks: 1000000000}": "",
		"listen: ':1'\ntrtllm: {cluster: {listen: ':1'}}":                          "trtllm.cluster.listen",
		"listen: '127.0.0.1:1'\nextproc: {listen: '127.0.0.2:1'}":                  "",
		"listen: '0.0.0.0:1'\nextproc: {listen: '[::1]:1'}":                        "",
		"listen: 'host:1'\nextproc: {listen: 'other:1'}":                           "",
		"listen: '127.0.0.1:0'\nadmin: {listen: '127.0.0.1:0'}":                    "",
		"listen: '127.0.0.1:1'\nadmin: {listen: off}\nextproc: {listen: off}":      "",
		"listen: 'unix:///run/a.sock'\nadmin: {listen: 'unix:///run/b.sock'}":      "",
		"listen: 'unix:///run/a.sock'\nadmin: {listen: 'unix:///run/a.sock'}":      "admin.listen",
	} {
		_, err := config.Parse("f", []byte(text+"\nendpoints: ['http://e:9']\n"), nil)
		if taken := err != nil && strings.Contains(err.Error(), " is taken by "); taken != (want != "") ||
			taken && !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot %v, want %q", text, err, want)
		}
	}
}
