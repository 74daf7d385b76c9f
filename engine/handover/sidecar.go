package handover

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/engine/answer"
)

// Sidecar is the protocol of llm-d's sidecar (llm-d-router, pd-sidecar): a proxy in the decoder's pod, which asks the
// prefiller that a header names, by the protocol that it is configured for, and then its own engine. The prefiller
// hears nothing from the router. The answer's header comes when the prompt is computed, and the answer reports the
// prefiller's cached tokens.
type Sidecar struct{}

// prefillerHeader names the prefiller to the sidecar.
const prefillerHeader = "X-Prefiller-Host-Port"

// Name implements Connector.
func (Sidecar) Name() string { return "llmd_sidecar" }

// Order implements Connector.
func (Sidecar) Order() Order { return ByDecoder }

// Fits implements Connector: the sidecar handles these APIs and passes others to its engine.
func (Sidecar) Fits(x *Request) error {
	switch x.API {
	case answer.APIChat, answer.APICompletions, answer.APIResponses, answer.APIMessages:
		return nil
	}
	return fmt.Errorf("the connector llmd_sidecar knows no API %q", x.API)
}

// Prefill implements Connector. It is not sent.
func (Sidecar) Prefill(*Request) (Message, error) { return Message{}, nil }

// Reply implements Connector. There is none.
func (Sidecar) Reply(*Request, []byte) (Handed, error) { return Handed{Honest: true}, nil }

// Decode implements Connector: the client's own request, and the prefiller's address.
func (Sidecar) Decode(x *Request, _ *Handed) (Message, error) {
	scheme, rest, _ := strings.Cut(x.Prefiller.URL, "://")
	address, _, _ := strings.Cut(rest, "/")
	if address == "" || scheme != "http" && scheme != "https" {
		return Message{}, fmt.Errorf("engine: the URL of the prefiller %s has no host that a sidecar could be told",
			x.Prefiller.Name)
	}
	if strings.LastIndexByte(address, ':') <= strings.LastIndexByte(address, ']') { // without a port
		port := ":80"
		if scheme == "https" {
			port = ":443"
		}
		address += port
	}
	return Message{Header: []Header{{prefillerHeader, address}}}, nil
}

// Keeps implements Connector: what was computed went to the sidecar that asked for it.
func (Sidecar) Keeps(bool) bool { return false }

var _ Connector = Sidecar{}
