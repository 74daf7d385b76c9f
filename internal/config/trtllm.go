package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/guard"
)

// TRTLLM makes the router replace trtllm-serve disaggregated, and configures its split requests.
type TRTLLM struct {
	// Paths serves, on the traffic listener, the additional paths of trtllm-serve disaggregated: /health, /version,
	// /cluster_info, /perf_metrics and /prometheus/metrics.
	Paths bool `yaml:"paths"`
	// PerfMetrics is how many requests /perf_metrics keeps until both workers have reported them
	// (perf_metrics_max_requests). 0 turns it off.
	PerfMetrics int `yaml:"perf_metrics"`
	// NodeID (0 to 255) is the part of request ids that distinguishes routers and orchestrators of the same workers;
	// give each its own. -1 draws a longer one at random.
	NodeID int `yaml:"node_id"`
	// ProcessID (0 to 63) distinguishes processes of one node.
	ProcessID int `yaml:"process_id"`
	// AuthKey signs messages to generation workers, in x-trtllm-disagg-auth. It must equal the workers' key.
	AuthKey string `yaml:"auth_key" secret:"true"`
	// AuthKeyFile has the key instead; surrounding white space is removed.
	AuthKeyFile string `yaml:"auth_key_file"`
	// TokenIDsBase64 hands over the token ids of chats in base64, if workers support it (gen_tokids_ctxbytes).
	TokenIDsBase64 bool `yaml:"token_ids_base64"`
	// LastMessageOnly sends generation workers only the last message of a chat, since they get its token ids
	// (gen_strip_message_history).
	LastMessageOnly bool `yaml:"last_message_only"`
	// Cluster finds the workers that register themselves.
	Cluster TRTCluster `yaml:"cluster"`
}

// TRTCluster is the service discovery of TensorRT-LLM (disagg_cluster).
type TRTCluster struct {
	// URI is where workers register: http://HOST:PORT, the address at which they reach this router, which then serves
	// their storage (/set, /get, /get_prefix, /expire, /delete), on the traffic listener or on listen; or
	// etcd://HOST:PORT. Empty turns it off.
	URI string `yaml:"uri"`
	// Listen is the address (host:port) of a separate listener for the storage, out of clients' reach; any host that
	// reaches it may register, unless token or allow is set. Empty serves the storage on the traffic listener, where
	// registration needs token or allow: registered workers get prompts and keys.
	Listen string `yaml:"listen"`
	// Allow are the networks and addresses (10.0.0.0/8, 192.0.2.7) from which workers may register.
	Allow []string `yaml:"allow"`
	// Token that calls to the storage must carry as a bearer token. TensorRT-LLM's workers usually send none.
	Token string `yaml:"token" secret:"true"`
	// TokenFile has the token instead; surrounding white space is removed.
	TokenFile string `yaml:"token_file"`
	// AllowHosts are the hosts that may be registered: names, *.DOMAIN, addresses and networks. The address that the
	// registration comes from is always allowed.
	AllowHosts []string `yaml:"allow_hosts"`
	// Name of the cluster; workers of other clusters are ignored.
	Name string `yaml:"name"`
	// MinContext is the number of context workers that /health needs to report the router ready.
	MinContext int `yaml:"min_context"`
	// MinGeneration is the same for generation workers.
	MinGeneration int `yaml:"min_generation"`
	// InactiveTimeout is how long a worker is kept that registers without a lifetime.
	InactiveTimeout time.Duration `yaml:"inactive_timeout"`
}

func defaultTRTLLM() TRTLLM {
	return TRTLLM{NodeID: -1, Cluster: TRTCluster{MinContext: 1, MinGeneration: 1, InactiveTimeout: 10 * time.Second}}
}

func (t *TRTLLM) check() []error {
	var faults []error
	within := func(path string, got, least, most int) {
		if got < least || got > most {
			faults = append(faults, fault("trtllm."+path, "is %d, must be between %d and %d", got, least, most))
		}
	}
	within("perf_metrics", t.PerfMetrics, 0, 1_000_000)
	within("node_id", t.NodeID, -1, 255)
	within("process_id", t.ProcessID, 0, 63)
	within("cluster.min_context", t.Cluster.MinContext, 0, 1<<20)
	within("cluster.min_generation", t.Cluster.MinGeneration, 0, 1<<20)
	faults = append(faults, t.authKey().check()...)
	if t.Cluster.InactiveTimeout <= 0 {
		faults = append(faults, fault("trtllm.cluster.inactive_timeout", "is %v, must be above 0",
			t.Cluster.InactiveTimeout))
	}
	if uri := t.Cluster.URI; uri != "" {
		u, err := url.Parse(uri)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "etcd" {
			faults = append(faults, fault("trtllm.cluster.uri", "%q is not http://HOST:PORT or etcd://HOST:PORT", uri))
		}
	}
	return append(faults, t.Cluster.checkStorage()...)
}

// Storage reports whether the router itself stores registrations.
func (c *TRTCluster) Storage() bool { return c.URI != "" && !strings.HasPrefix(c.URI, "etcd://") }

func (c *TRTCluster) checkStorage() []error {
	var faults []error
	if c.Listen != "" {
		if err := checkAddress(c.Listen); err != nil {
			faults = append(faults, fault("trtllm.cluster.listen", "%w", err))
		}
	}
	faults = append(faults, c.token().check()...)
	if _, err := guard.ParseNetworks(c.Allow); err != nil {
		faults = append(faults, fault("trtllm.cluster.allow", "%w", err))
	}
	if _, err := guard.ParseHosts(c.AllowHosts); err != nil {
		faults = append(faults, fault("trtllm.cluster.allow_hosts", "%w", err))
	}
	return faults
}

// warnings report settings that workers need to register, and settings without effect.
func (c *TRTCluster) warnings() []string {
	callers := len(c.Allow) > 0 || c.Token != "" || c.TokenFile != ""
	switch {
	case !c.Storage() && (callers || c.Listen != "" || len(c.AllowHosts) > 0):
		return []string{
			"trtllm.cluster: listen, allow, allow_hosts and token do nothing without a uri of http://HOST:PORT: " +
				"workers do not register at this router",
		}
	case !c.Storage() || callers || c.Listen != "":
		return nil
	}
	return []string{"no worker can register: trtllm.cluster.uri is on the traffic listener, where everybody could. " +
		"Set trtllm.cluster.allow to the workers' networks (WARMPATH_TRTLLM_CLUSTER_ALLOW=10.0.0.0/8), or give them " +
		"trtllm.cluster.listen, or a trtllm.cluster.token; and trtllm.cluster.allow_hosts if they register under names"}
}

// StorageToken is the token of the storage, read from its file if it is there; "" if none is required.
func (c *TRTCluster) StorageToken() (string, error) { return c.token().read() }

func (c *TRTCluster) token() secret { return secret{"trtllm.cluster.token", c.Token, c.TokenFile, 1} }

// Options are the connector's options, with the key read from its file if it is there.
func (t *TRTLLM) Options() (handover.TRTLLMOptions, error) {
	key, err := t.authKey().read()
	return handover.TRTLLMOptions{Key: key, TokenIDsBase64: t.TokenIDsBase64, LastMessageOnly: t.LastMessageOnly}, err
}

func (t *TRTLLM) authKey() secret { return secret{"trtllm.auth_key", t.AuthKey, t.AuthKeyFile, 1} }
