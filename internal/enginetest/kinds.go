package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/fleet"
)

// kind is one kind of engine: its differences from the others, and its paths.
type kind struct {
	dialect
	routes func(s *Server, m *http.ServeMux)
}

// New returns a running simulated engine. The error lists every fault of the options.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	k, known := kinds()[opts.Dialect]
	if err := opts.validate(known); err != nil {
		return nil, err
	}
	s, err := newServer(opts, k.dialect)
	if err != nil {
		return nil, err
	}
	k.routes(s, s.mux)
	return s, nil
}

// kinds are those that can be simulated.
func kinds() map[fleet.Kind]kind {
	return map[fleet.Kind]kind{
		fleet.KindVLLM: {dialect{
			ownedBy: "vllm", earlyHeaders: true, rankHeader: true, version: "0.32.0+simulated",
			keyPaths: []string{"/v1", "/inference"},
		}, (*Server).vllmRoutes},
		fleet.KindSGLang: {dialect{
			ownedBy: "sglang", anyModel: true, flatErrors: true, rankHeader: true, version: "0.5.23+simulated",
			keyPaths: []string{"/"},
		}, (*Server).sglangRoutes},
		fleet.KindTRTLLM: {dialect{
			ownedBy: "tensorrt_llm", anyModel: true, flatErrors: true, version: "1.3.0+simulated",
			keyPaths: []string{"/v1"},
		}, (*Server).trtllmRoutes},
		fleet.KindLlamaCpp: {dialect{
			ownedBy: "llamacpp", anyModel: true, earlyHeaders: true, timings: true, lanes: true,
			version: "b11669+simulated", keyPaths: []string{"/"},
		}, (*Server).llamacppRoutes},
		fleet.KindOllama: {dialect{ownedBy: "library", version: "0.33.3+simulated"}, (*Server).ollamaRoutes},
	}
}
