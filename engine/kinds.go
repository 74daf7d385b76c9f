package engine

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// Kinds are the kinds that can be declared, in the order of the documentation.
func Kinds() []fleet.Kind {
	return []fleet.Kind{
		fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp, fleet.KindOllama, fleet.KindOther,
	}
}

// ByKind returns the dialect of a kind. For an unrecognised engine (KindUnknown) it is that of KindOther.
func ByKind(k fleet.Kind) (Dialect, error) {
	switch k {
	case fleet.KindVLLM:
		return vllm{}, nil
	case fleet.KindSGLang:
		return sglang{}, nil
	case fleet.KindTRTLLM:
		return trtllm{}, nil
	case fleet.KindLlamaCpp:
		return llamaCpp{}, nil
	case fleet.KindOllama:
		return ollama{}, nil
	case fleet.KindOther, fleet.KindUnknown:
		return other{}, nil
	}
	names := make([]string, 0, 6)
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return nil, fmt.Errorf("engine: unknown kind %q, want one of %s", k, strings.Join(names, ", "))
}
