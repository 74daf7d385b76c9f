package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

func TestPeers(t *testing.T) {
	rows := map[string]struct{ yaml, fault string }{
		"two on one machine": {"{listen: '127.0.0.1:7946', routers: ['127.0.0.1:7946', '127.0.0.1:7947']}", ""},
		"by name": {
			"{listen: ':7946', routers: ['dns://warmpath.default:7946'], secret: 0123456789abcdef}", "",
		},
		"no address of its own": {
			"{routers: ['127.0.0.1:7001', '127.0.0.1:7002']}", "peers.listen: is needed with peers.routers",
		},
		"no secret": {
			"{listen: '0.0.0.0:7946', routers: ['10.0.0.2:7946']}",
			"peers.secret: is needed unless all addresses are loopback",
		},
		"a name and no secret": {
			"{listen: '127.0.0.1:7946', routers: ['dns://localhost:7946']}", "peers.secret: is needed",
		},
		"a short secret": {
			"{listen: '0.0.0.0:7946', routers: ['10.0.0.2:7946'], secret: abc}",
			"peers.secret: has 3 bytes, must be 16 or more",
		},
		"nobody to talk to":     {"{listen: '127.0.0.1:7946'}", "peers.routers: is needed"},
		"nowhere to be reached": {"{routers: ['127.0.0.1:7947']}", "peers.listen: is needed"},
		"no port": {
			"{listen: '127.0.0.1:7946', routers: ['127.0.0.1']}", "peers.routers[0]: \"127.0.0.1\" must be HOST:PORT",
		},
		"by redis":            {"{routers: ['redis://127.0.0.1:6379/0']}", ""},
		"one node elsewhere":  {"{routers: ['redis://127.0.0.1:6379?addr=redis2:6379']}", "peers.secret: is needed"},
		"a node with no port": {"{routers: ['redis://127.0.0.1:6379?addr=127.0.0.1']}", "must be HOST:PORT"},
		"authorities of no TLS": {
			"{routers: ['redis://127.0.0.1:6379'], redis: {ca_file: ca.pem}}",
			"peers.redis.ca_file: is of TLS: write rediss://",
		},
		"a key and no more": {
			"{routers: ['rediss://127.0.0.1:6379'], redis: {key_file: key.pem}}",
			"peers.redis.cert_file: and peers.redis.key_file go together",
		},
		"redis elsewhere": {"{routers: ['rediss://u:p@redis:6379/0']}", "peers.secret: is needed"},
		"redis and a port": {
			"{listen: '127.0.0.1:7946', routers: ['redis://127.0.0.1:6379']}",
			"peers.listen: has no meaning with Redis",
		},
		"redis and routers": {
			"{listen: '127.0.0.1:7946', routers: ['redis://127.0.0.1:6379', '127.0.0.1:7947']}",
			"peers.routers[0]: must be alone",
		},
		"another scheme": {"{listen: '127.0.0.1:7946', routers: ['nats://a:1']}", "has the unknown scheme nats"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("f", []byte("peers: "+row.yaml+"\n"), nil)
			switch {
			case row.fault == "" && err != nil:
				t.Error(err)
			case row.fault != "" && (err == nil || !strings.Contains(err.Error(), row.fault)):
				t.Errorf("%v, want %q", err, row.fault)
			case row.fault != "" && strings.Contains(err.Error(), "\n"):
				t.Errorf("more than one fault: %v", err)
			}
		})
	}
}

func TestPasswordsInURLsAreHidden(t *testing.T) {
	c, err := config.Parse("f", []byte("peers: {routers: ['redis://me:s3cret@127.0.0.1:6379/0']}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Redacted().Peers.Routers[0]; got != "redis://me:xxxxx@127.0.0.1:6379/0" {
		t.Errorf("%s", got)
	}
	if got := c.Peers.RedisURL(); got != "redis://me:s3cret@127.0.0.1:6379/0" {
		t.Errorf("the original is %s", got)
	}
}
