// Package kvevents follows what engines publish about their KV caches: over ZeroMQ (vLLM, SGLang), which it dials or which dial in, and by
// asking again and again (TensorRT-LLM). What came is told to the fleet as route.KVApplied, and how the stream is as route.KVHeard: missing messages are asked
// for, a restart of the engine and silence are noticed within two seconds and said.
//
// Each stream has one goroutine that reads, decodes and names blocks outside the fleet's lock. All queues are bounded: a router that falls
// behind makes the engine's own queue overflow, which shows as missing messages.
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

// Config says which events are followed, and how.
type Config struct {
	// Discover follows the events of engines that tell where they publish them: vLLM (GET /kv_event_sources) and SGLang
	// (/server_info). TensorRT-LLM's are asked for only where an endpoint says kv_events: poll, since asking takes them from
	// whoever else asks.
	Discover bool `yaml:"discover"`
	// Listen is where engines are heard that dial out themselves, as llm-d sets vLLM up: tcp://HOST:PORT, with * for every interface. Their
	// topics say whose the events are: kv@POD@MODEL, where POD is an endpoint's name, its host:port or its host, or an endpoint's kv_topic.
	// Empty listens nowhere.
	Listen string `yaml:"listen"`
	// Allow are the networks from which engines may dial in: addresses, or networks such as 10.0.0.0/8. Who may dial in can say what caches hold,
	// so the default is this machine and private networks (RFC 1918, RFC 6598, RFC 4193, link-local). Others are refused, logged and counted.
	Allow []string `yaml:"allow"`
	// ListenRanks is how many ports are listened at, from that of listen on: vLLM adds the data-parallel rank to the port that it dials.
	ListenRanks int `yaml:"listen_ranks"`
	// Poll is how often TensorRT-LLM is asked at least. It is asked when an answer begins or ends there too, up to ten times as often.
	Poll time.Duration `yaml:"poll"`
	// Blocks bounds the blocks that are followed of one engine or data-parallel rank, at about 100 bytes each.
	Blocks int `yaml:"blocks"`
	// SessionHeader passes the conversation's id to engines under this name where the client sent none; vLLM puts it on the blocks that
	// it stores, which ties them to their conversation. Empty passes none.
	SessionHeader string `yaml:"session_header"`
	// Tokenize asks vLLM and SGLang, beside each request whose endpoint has KV events, for the tokens of its prompt (POST /tokenize), so that
	// blocks can be told to be its own by what they hold. It costs the engine's front end about as much as the request itself.
	Tokenize bool `yaml:"tokenize"`
	// Tokenizer does the same without asking anybody, for engines that tokenize for nobody (TensorRT-LLM), and for vLLM and SGLang where tokenize
	// is off: the model's directory, or its tokenizer.json, with the chat template beside it. One serves all endpoints; where an engine
	// counts other tokens, token ids are not gone by.
	Tokenizer string `yaml:"tokenizer"`
}

// DefaultConfig is the configuration when nothing is set.
func DefaultConfig() Config {
	return Config{Discover: true, Allow: privateNetworks(), ListenRanks: 1, Poll: 250 * time.Millisecond, Blocks: kvstream.DefaultBlocks, SessionHeader: "X-Session-ID"}
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
		faults = append(faults, errors.New("kvevents: allow is empty, so that nobody may dial in: list the engines' networks, or 0.0.0.0/0 and ::/0 for everybody"))
	}
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // RFC 9110, section 5.6.2
	switch name := strings.ToLower(c.SessionHeader); {
	case strings.Trim(name, token) != "":
		faults = append(faults, fmt.Errorf("kvevents: session_header is %q, which is no name of a header", c.SessionHeader))
	case slices.Contains(taken, name):
		faults = append(faults, fmt.Errorf("kvevents: session_header is %q, which says something else of every request", c.SessionHeader))
	}
	return errors.Join(faults...)
}

// privateNetworks are those that the internet does not route, where engines usually are.
func privateNetworks() []string {
	return []string{
		"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16",
		"::1", "fc00::/7", "fe80::/10",
	}
}

// taken are headers that must not hold an id which a client may choose.
var taken = []string{
	"authorization", "connection", "content-encoding", "content-length", "content-type", "expect", "host", "proxy-authorization", "te",
	"trailer", "transfer-encoding", "upgrade", "x-api-key", "x-request-id",
}

// Parameters that nobody should need to change.
const (
	beat       = 500 * time.Millisecond // between questions that show whether a stream is complete and its engine the same
	patience   = time.Second            // for the answer
	reconnect  = 250 * time.Millisecond // between attempts
	queue      = 256                    // messages read and not yet taken in
	mostOps    = 512                    // operations told to the fleet at once
	mostRanks  = 1024                   // of one endpoint
	mostAnswer = 64 << 20               // bytes of one poll
)
