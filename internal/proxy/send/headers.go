package send

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/warmpath/warmpath/engine/handover"
)

// HopByHop reports whether a header, in canonical form, ends at a proxy (RFC 9110, section 7.6.1).
func HopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// Withheld reports whether a client's header, in canonical form, reaches no engine though it is not one of a hop: the
// router's own, and, unless transfers is set, those that say whom an engine is to dial or whose KV cache it is to
// take. The latter are llm-d's, which tell the sidecar of an engine whom else to ask (llm-d-router, pd-sidecar),
// SGLang's, which override members of the body (0.5.23, request_headers.py) or have it unpacked after the router has
// read it (http_request_decompression.py), those by which a client picks the rank of an engine (vLLM, SGLang) or the
// worker of SMG or Dynamo, or one of a gateway with the Gateway API inference extension any address (where its picker
// fails open) or another model than the body's, and TensorRT-LLM's from its orchestrator to workers: that the body is
// no JSON, and that its hand-over is signed. The same goes for orders to a proxy before an engine, which Envoy and
// Linkerd take from callers that they trust, as the router is one: limits of time, which end requests as if the engine
// had failed (Grpc-Timeout of any request, where a route allows it, as Istio's do), repetitions, addresses. Requests
// and upgrades share it.
func Withheld(name string, transfers bool) bool {
	switch name {
	case "X-Prefiller-Host-Port", "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port", "X-Kv-Cache-Source-Host-Port",
		"X-Smg-Target-Worker", "X-Dynamo-Worker-Instance-Id", "X-Dynamo-Prefill-Instance-Id", "X-Dynamo-Dp-Rank",
		"X-Dynamo-Prefill-Dp-Rank", "X-Worker-Instance-Id", "X-Prefill-Instance-Id", "X-Dp-Rank", "X-Prefill-Dp-Rank",
		"X-Data-Parallel-Rank", "X-Trtllm-Msgpack", "X-Trtllm-Disagg-Auth",
		"X-Body-Compressed", "X-Llm-D-Model-Name-Rewrite", "X-Gateway-Model-Name-Rewrite",
		"X-Gateway-Destination-Endpoint", "Grpc-Timeout":
		return !transfers
	}
	if transfers {
		return strings.HasPrefix(name, "X-Warmpath-")
	}
	for _, begins := range [...]string{"X-Warmpath-", "X-Override-", "X-Envoy-", "L5d-"} {
		if strings.HasPrefix(name, begins) {
			return true
		}
	}
	return false
}

// ReachesClient reports whether a header of an engine's answer, in canonical form, reaches the client, as those of one
// hop never do. What a router behind this one chose is not ours to tell. Others are orders to the proxy that receives
// the answer, which is this router; a proxy before it would obey them in its turn: nginx, Apache and lighttpd send a
// file in the place of the answer (X-Accel-Buffering, which only says how, may pass), and Envoy takes the router itself
// for failed. Alt-Svc tells clients to come to a port of the router's name, where the router does not listen (RFC 7838,
// section 3).
func ReachesClient(name string) bool {
	switch name {
	case "X-Request-Id", "X-Sendfile", "X-Lighttpd-Send-File", "X-Lighttpd-Send-Tempfile", "Alt-Svc",
		"X-Envoy-Immediate-Health-Check-Fail":
		return false
	case "X-Accel-Buffering":
		return true
	}
	return !strings.HasPrefix(name, "X-Accel-") && !strings.HasPrefix(name, "X-Warmpath-")
}

// copyEndToEnd copies the end-to-end headers, except those withheld.
func copyEndToEnd(to, from http.Header, transfers bool) {
	named := from["Connection"] // these end at a proxy too
	for k, v := range from {
		if HopByHop(k) || Withheld(k, transfers) || httpguts.HeaderValuesContainsToken(named, k) {
			continue
		}
		to[k] = v
	}
	delete(to, "Expect")
}

// setHeader sets or removes a header of a leg.
func setHeader(h http.Header, to handover.Header) {
	name := http.CanonicalHeaderKey(to.Name)
	if to.Value == "" {
		delete(h, name)
		return
	}
	h[name] = []string{to.Value}
}

// Named looks up headers by names that are already canonical, as a prompt.Parser's are. It looks up twenty for each
// request, and http.Header.Get would examine every letter of each first.
type Named http.Header

// Get is the first value of a header, "" for none.
func (h Named) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
