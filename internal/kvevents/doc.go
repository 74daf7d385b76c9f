// Package kvevents reads the KV events of engines: over ZeroMQ (vLLM, SGLang), in connections opened by the router or
// by the engine, and by polling (TensorRT-LLM).
//
// It owns the streams, their sockets and the lookup of requests' tokens. It passes operations to the fleet as
// route.KVApplied and the state of each stream as route.KVStreamState. Each stream has one goroutine that reads,
// decodes and names blocks while the fleet is not locked. It promises that missing messages are requested again, that a
// restart of the engine and silence are reported within two seconds, and that all queues are bounded: if the router
// falls behind, the engine's own queue overflows, which shows as missing messages. It never predicts what a cache
// holds: route does.
package kvevents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/kvstream"
)

// Config says which KV events are read, and how.
type Config struct {
	// Discover subscribes to the events of engines that report where they publish: vLLM (GET /kv_event_sources) and
	// SGLang (/server_info). TensorRT-LLM is polled only for endpoints with kv_events: poll, since each poll removes
	// the events for other readers.
	Discover bool `yaml:"discover"`
	// Listen is the address for engines that connect to the router, as in llm-d's setup of vLLM: tcp://HOST:PORT, with
	// * for every interface. Their topics name the endpoint: kv@POD@MODEL, where POD is an endpoint's name, its
	// host:port or its host, and the connection comes from its address; or an endpoint's kv_topic, from any address.
	// Empty does not listen.
	Listen string `yaml:"listen"`
	// Allow are the networks from which engines may connect: addresses, or networks such as 10.0.0.0/8. A connected
	// engine determines predicted cache contents, so the default is this machine and private networks (RFC 1918, RFC
	// 6598, RFC 4193, link-local). Other connections are closed, logged and counted.
	Allow []string `yaml:"allow"`
	// ListenRanks is the number of consecutive ports to listen at, from that of listen on: vLLM adds the data-parallel
	// rank to the port.
	ListenRanks int `yaml:"listen_ranks"`
	// Poll is the longest interval between polls of TensorRT-LLM. It is also polled when an answer begins or ends
	// there, up to ten times as often.
	Poll time.Duration `yaml:"poll"`
	// Blocks bounds the blocks kept of one engine or data-parallel rank, at about 100 bytes each.
	Blocks int `yaml:"blocks"`
	// SessionHeader is the header in which engines get the conversation's id if the client sent none; vLLM adds it to
	// the blocks that it stores, which assigns them to their conversation. Empty sends none.
	SessionHeader string `yaml:"session_header"`
	// Tokenize asks vLLM and SGLang, for each request to an endpoint with KV events, for the tokens of its prompt (POST
	// /tokenize), so that its blocks are recognised by content. It costs the engine's front end about as much as the
	// request itself.
	Tokenize bool `yaml:"tokenize"`
	// Tokenizer computes these tokens in the router, for engines without a tokenize path (TensorRT-LLM), and for vLLM
	// and SGLang if tokenize is off: the model's directory, or its tokenizer.json, with the chat template beside it.
	// One serves all endpoints. If an engine reports another number of tokens, token ids are not used for it.
	Tokenizer string `yaml:"tokenizer"`
}

// DefaultConfig is the configuration when nothing is set.
func DefaultConfig() Config {
	return Config{
		Discover: true, Allow: privateNetworks(), ListenRanks: 1, Poll: 250 * time.Millisecond,
		Blocks: kvstream.DefaultBlocks, SessionHeader: "X-Session-ID",
	}
}

// Validate reports every fault, joined into one error.
func (c Config) Validate() error {
	var faults []error
	if c.Poll < 10*time.Millisecond || c.Poll > time.Second {
		faults = append(faults, fmt.Errorf("kvevents: poll is %v, must be between 10ms and 1s", c.Poll))
	}
	if c.Blocks < 1024 || c.Blocks > 1<<26 {
		faults = append(faults, fmt.Errorf("kvevents: blocks is %d, must be between 1024 and %d", c.Blocks, 1<<26))
	}
	if err := checkListen(c.Listen, c.ListenRanks); err != nil {
		faults = append(faults, err)
	}
	if _, err := guard.ParseNetworks(c.Allow); err != nil {
		faults = append(faults, fmt.Errorf("kvevents: allow: %w", err))
	} else if c.Listen != "" && len(c.Allow) == 0 {
		faults = append(faults, errors.New("kvevents: allow is empty, so that no engine may dial in: "+
			"list the engines' networks, or 0.0.0.0/0 and ::/0 for everybody"))
	}
	// RFC 9110, section 5.6.2
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	switch name := strings.ToLower(c.SessionHeader); {
	case strings.Trim(name, token) != "":
		faults = append(faults, fmt.Errorf("kvevents: session_header is %q, which is no name of a header",
			c.SessionHeader))
	case slices.Contains(reserved, name):
		faults = append(faults, fmt.Errorf("kvevents: session_header is %q, which says something else of every request",
			c.SessionHeader))
	}
	return errors.Join(faults...)
}

// privateNetworks are the networks not routed on the internet, where engines usually are.
func privateNetworks() []string {
	return []string{
		"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16",
		"::1", "fc00::/7", "fe80::/10",
	}
}

// reserved are headers whose value a client must not choose.
var reserved = []string{
	"authorization", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
	"proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "x-api-key", "x-request-id",
}

// Parameters that are not configurable.
const (
	// interval of replay requests that check that a stream is complete and its engine the same
	beat        = 500 * time.Millisecond
	patience    = time.Second            // for the answer to one
	reconnect   = 250 * time.Millisecond // between attempts
	queue       = 256                    // messages of a stream read and not yet applied
	mostQueued  = 4 << 20                // bytes of these, beside one message of any size
	mostMessage = 16 << 20               // bytes of a message: a step that stores four million tokens
	mostReading = 256 << 20              // bytes of long messages that are being read, of all connections
	mostOps     = 512                    // operations passed to the fleet at once
	mostRanks   = 1024                   // of one endpoint
	mostAnswer  = 64 << 20               // bytes of one poll
)
