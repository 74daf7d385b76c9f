package handover

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// Connectors are the configurable protocols, in the order of the documentation.
func Connectors() []Connector {
	return []Connector{Nixl{}, LMCache{}, Mooncake{}, MoRIIO{}, MoRIIO{Read: true}, SGLang{}, TRTLLM{}, TRTLLM{
		GenerationFirst: true,
	}, Sidecar{}}
}

// Names are their names.
func Names() []string {
	var names []string
	for _, c := range Connectors() {
		names = append(names, c.Name())
	}
	return names
}

// ByName finds a protocol.
func ByName(name string) (Connector, error) {
	for _, c := range Connectors() {
		if c.Name() == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("engine: unknown connector %q, want one of %s", name, strings.Join(Names(), ", "))
}

// ByKind is the default protocol of a kind of engine; nil when there is none.
func ByKind(k fleet.Kind) Connector {
	switch k {
	case fleet.KindVLLM:
		return Nixl{}
	case fleet.KindSGLang:
		return SGLang{}
	case fleet.KindTRTLLM:
		return TRTLLM{}
	default:
		return nil
	}
}
