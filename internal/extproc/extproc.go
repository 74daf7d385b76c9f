// Package extproc is an endpoint picker for Envoy, and for whatever else speaks the protocol of the Gateway API
// inference extension: a gRPC server of Envoy's external processing, to which the proxy shows a request and its answer,
// and which names the endpoint.
//
// It owns the translation between messages of that protocol and a request of the door: each stream is one call of the
// door's handler, whose exchange with the endpoint is carried by Envoy (package external). It promises that the door
// decides, counts and learns as it does for its own clients, that no message is sent which the proxy's mode does not
// allow, and that a request is released when its stream ends, however it ends. It never chooses an endpoint and never
// connects to one.
//
// The wire is envoy/service/ext_proc/v3/external_processor.proto of Envoy 1.40; names of headers and metadata are those
// of proposal 004 (endpoint picker protocol) of kubernetes-sigs/gateway-api-inference-extension, v1.
package extproc

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/route"
)

// Config says who decides, and among which endpoints. Door, Fleet, Ready, BodyBytes, Memory and Log are required.
type Config struct {
	Door       http.Handler      // the traffic listener's handler
	Fleet      *live.Fleet       // whose endpoints a subset names
	Ready      func() bool       // whether requests can be placed
	Objectives map[string]string // priorities (low, normal, high) by the names of the inference extension's objectives
	// how many further endpoints are named for the proxy to try; most implementations take one
	Fallbacks int
	Sidecar   int // port of the pods' sidecars, by which endpoints at other ports are named; 0 for none
	// do what the inference extension's conformance suite asks of a picker, see conformance.go
	Conformant bool
	BodyBytes  int          // the largest request body
	Memory     *body.Budget // the memory of requests, which messages count in too
	Log        *slog.Logger

	TLS *tls.Config // nil for plain connections, else TLS only
}

// Server answers the streams of external processing.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer
	cfg  Config
	grpc *grpc.Server
	once [warnings]sync.Once

	announced atomic.Int64 // bytes of bodies that are to come, for which memory is taken
}

// New makes a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg}
	s.grpc = s.newGRPC()
	return s
}

// What is said once, since each request would say it again.
const (
	warnNoAnswers = iota // the proxy does not show answers
	warnStreamed         // the proxy does not wait for the decision
	warnNoHeaders        // the proxy does not show the headers of answers
	warnings
)

func (s *Server) warn(which int, message string) {
	s.once[which].Do(func() { s.cfg.Log.Warn(message) })
}

// Process serves one request of a client of the proxy, from its header to the end of its answer.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	first, err := s.first(stream)
	if err != nil {
		return err
	}
	head := first.GetRequestHeaders()
	if head == nil {
		return status.Error(codes.InvalidArgument, "the first message of a stream must be the request's headers: "+
			"set processing_mode.request_header_mode: SEND")
	}
	if first.GetObservabilityMode() {
		return status.Error(codes.InvalidArgument, "observability_mode takes no answers, so no endpoint can be named")
	}
	x, err := s.begin(stream, first, head)
	if x != nil {
		defer x.unclaim()
	}
	if err != nil {
		return err
	}
	if x.excluded, err = s.outsideSubset(first); err != nil {
		return x.reply(noEndpoints(err))
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		if !panics.Catch(s.cfg.Log, panics.ExtProc, x.receive) {
			x.left()
		}
	}()
	served := make(chan error, 1)
	go func() {
		err := errFault
		panics.Catch(s.cfg.Log, panics.ExtProc, func() { err = x.serve() })
		served <- err
	}()
	select {
	case err = <-served:
	case <-x.stuck:
		return errStuck // the stream ends, which ends Send and so the door
	}
	if err != nil || x.answered() {
		x.cancel()
		return err
	}
	select {
	case <-received: // the rest of the answer passes unchanged
		return nil
	case <-x.stuck:
		return errStuck
	}
}

// takenWithin is how long a proxy may take to make room for a message.
const takenWithin = time.Minute

var errStuck = status.Error(codes.DeadlineExceeded, "the proxy takes no messages")

// first waits for the first message of a stream, for as long as a proxy may take to send it. Once Process returns, the
// stream is over, and Recv returns too.
func (s *Server) first(stream extprocv3.ExternalProcessor_ProcessServer) (*extprocv3.ProcessingRequest, error) {
	var m *extprocv3.ProcessingRequest
	err := errFault // where Recv panics
	came := make(chan struct{})
	go func() {
		defer close(came)
		panics.Catch(s.cfg.Log, panics.ExtProc, func() { m, err = stream.Recv() })
	}()
	late := time.NewTimer(headWithin)
	defer late.Stop()
	select {
	case <-came:
		return m, err
	case <-late.C:
		return nil, status.Error(codes.DeadlineExceeded,
			"the stream began without a message: send the request's headers")
	}
}

// subset is where a proxy names the endpoints that it allows.
const (
	subsetSpace = "envoy.lb.subset_hint"
	subsetKey   = "x-gateway-destination-endpoint-subset"
)

// outsideSubset are the names of endpoints that the proxy does not allow; none where it says nothing. An entry without
// a port allows all ports of its address. The error says that it allows none of them.
func (s *Server) outsideSubset(m *extprocv3.ProcessingRequest) (excluded []string, err error) {
	hint := m.GetMetadataContext().GetFilterMetadata()[subsetSpace].GetFields()[subsetKey]
	if hint == nil {
		return nil, nil
	}
	allowed := map[string]bool{}
	for _, v := range hint.GetListValue().GetValues() {
		allowed[strings.TrimSpace(v.GetStringValue())] = true
	}
	for v := range strings.SplitSeq(hint.GetStringValue(), ",") {
		allowed[strings.TrimSpace(v)] = true
	}
	some := false
	s.cfg.Fleet.Each(func(e *fleet.Endpoint) {
		if hostport, host := hostOf(e.URL); allowed[hostport] || allowed[host] ||
			s.cfg.Sidecar > 0 && allowed[net.JoinHostPort(host, strconv.Itoa(s.cfg.Sidecar))] {
			some = true
			return
		}
		excluded = append(excluded, e.Name)
	})
	if !some {
		return nil, errNoSubset
	}
	return excluded, nil
}

// hostOf is host:port and host of an endpoint's URL, "" where it has none. It is called for each endpoint of a fleet:
// it makes no url.URL.
func hostOf(raw string) (hostport, host string) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return "", ""
	}
	rest, _, _ = strings.Cut(rest, "/")
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, ']') {
		return rest, strings.Trim(rest[:i], "[]")
	}
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return rest + port, strings.Trim(rest, "[]")
}

// addressOf is ip:port of an endpoint, as proxies want it. A name is looked up.
func addressOf(ctx context.Context, e fleet.Endpoint) (string, error) {
	hostport, host := hostOf(e.URL)
	if host == "" {
		return "", &addressError{e.Name, "its URL has no host that a proxy could be told"}
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return hostport, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		return "", &addressError{e.Name, "its host name has no address"}
	}
	_, port, _ := net.SplitHostPort(hostport)
	return net.JoinHostPort(found[0].Unmap().String(), port), nil
}

// addressError says why a proxy cannot be sent to an endpoint.
type addressError struct{ endpoint, why string }

func (e *addressError) Error() string { return "endpoint " + e.endpoint + ": " + e.why }

// fallbacks are addresses of further endpoints that serve the model of the chosen one, those with the fewest requests
// first.
func (s *Server) fallbacks(ctx context.Context, chosen fleet.Endpoint, excluded []string) (addresses []string) {
	if s.cfg.Fallbacks <= 0 || s.cfg.Sidecar > 0 { // a sidecar is told one rank
		return nil
	}
	for _, e := range leastBusy(s.cfg.Fleet.Status(), chosen, excluded) {
		if len(addresses) == s.cfg.Fallbacks {
			break
		}
		if a, err := addressOf(ctx, e); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// leastBusy are the endpoints that are up and serve what the chosen one serves, but for it, in order of running
// requests.
func leastBusy(all []route.EndpointStatus, chosen fleet.Endpoint, excluded []string) (list []fleet.Endpoint) {
	serves := map[string]bool{}
	for _, e := range all {
		if e.Endpoint.Name == chosen.Name {
			for _, m := range e.Models {
				serves[m.ID] = true
			}
		}
	}
	slices.SortStableFunc(all, func(a, b route.EndpointStatus) int {
		return cmp.Compare(a.Load.Requests, b.Load.Requests)
	})
	for _, e := range all {
		if e.Endpoint.Name == chosen.Name || e.Endpoint.URL == chosen.URL || e.State != fleet.StateUp || e.Gone ||
			e.Draining || slices.Contains(excluded, e.Endpoint.Name) || e.Endpoint.Role != chosen.Role ||
			!slices.ContainsFunc(e.Models, func(m fleet.Model) bool { return serves[m.ID] }) {
			continue
		}
		list = append(list, e.Endpoint)
	}
	return list
}
