package extproc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/warmpath/warmpath/internal/panics"
)

// most is how many requests one connection of a proxy has open at most; a proxy opens another for more. messageRoom is
// what a message has beside a body, and window how much of a stream comes before it is asked for: more comes only of a
// message that is being read.
const (
	most        = 1024
	messageRoom = 1 << 20
	window      = 64 << 10
	connWindow  = 1 << 20
)

// A proxy that says nothing more is let go of. One whose connection is old is told to open another, so that new routers
// get their share; its open requests end in their own time.
const (
	connectWithin = 10 * time.Second
	headWithin    = 10 * time.Second // from the beginning of a stream to its first message
	idleAfter     = 15 * time.Minute
	oldAfter      = time.Hour
	askAfter      = time.Minute
	askWithin     = 20 * time.Second
)

// newGRPC is the gRPC server of external processing, and of the health checks of its clients.
func (s *Server) newGRPC() *grpc.Server {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.cfg.BodyBytes + messageRoom), grpc.MaxConcurrentStreams(most),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(connWindow), grpc.WriteBufferSize(64 << 10),
		grpc.ReadBufferSize(64 << 10), grpc.StreamInterceptor(s.caught), grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(connectWithin), grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleAfter, MaxConnectionAge: oldAfter, Time: askAfter, Timeout: askWithin,
		}), grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
	}
	if s.cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.cfg.TLS)))
	}
	g := grpc.NewServer(options...)
	extprocv3.RegisterExternalProcessorServer(g, s)
	healthv1.RegisterHealthServer(g, &health{ready: s.cfg.Ready})
	return g
}

var errFault = status.Error(codes.Internal, "a fault of the router: see its log")

// caught has a stream end with an error where its handler panics, which would end the process.
func (s *Server) caught(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	err := errFault
	panics.Catch(s.cfg.Log, panics.ExtProc, func() { err = next(srv, stream) })
	return err
}

// Serve takes proxies' connections until Stop.
func (s *Server) Serve(l net.Listener) error { return s.grpc.Serve(l) }

// Stop ends what is open.
func (s *Server) Stop() { s.grpc.Stop() }

// lifetime is how long a certificate that is kept nowhere is good.
const lifetime = 10 * 365 * 24 * time.Hour

// SelfSigned makes a certificate for proxies that do not verify it.
func SelfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "warmpath"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(lifetime), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"warmpath", "localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// health answers gRPC health checks: liveness always, readiness and the service itself while requests can be placed.
type health struct {
	healthv1.UnimplementedHealthServer
	ready func() bool
}

// watchEvery is how often a watched service is looked at.
const watchEvery = 500 * time.Millisecond

func (h *health) of(service string) (healthv1.HealthCheckResponse_ServingStatus, error) {
	switch service {
	case "liveness":
		return healthv1.HealthCheckResponse_SERVING, nil
	case "", "readiness", extprocv3.ExternalProcessor_ServiceDesc.ServiceName:
		if h.ready() {
			return healthv1.HealthCheckResponse_SERVING, nil
		}
		return healthv1.HealthCheckResponse_NOT_SERVING, nil
	}
	return healthv1.HealthCheckResponse_SERVICE_UNKNOWN,
		status.Errorf(codes.NotFound, "no service %q: ask for liveness, readiness or %s",
			service, extprocv3.ExternalProcessor_ServiceDesc.ServiceName)
}

func (h *health) Check(_ context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	now, err := h.of(r.GetService())
	if err != nil {
		return nil, err
	}
	return &healthv1.HealthCheckResponse{Status: now}, nil
}

func (h *health) Watch(r *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	said := healthv1.HealthCheckResponse_UNKNOWN
	for {
		now, _ := h.of(r.GetService())
		if now != said {
			said = now
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-t.C:
		}
	}
}
