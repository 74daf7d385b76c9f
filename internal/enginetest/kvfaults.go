package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// KVAddresses are where the events of a rank are published, and where missed ones can be asked for: tcp://HOST:PORT.
func (s *Server) KVAddresses(rank int) (events, replay string) {
	return s.pump.Publishers()[rank].Addresses()
}

// KVSubscribed reports whether anybody takes a rank's events (vLLM, SGLang).
func (s *Server) KVSubscribed(rank int) bool { return s.pump.Publishers()[rank].Subscribed() }

// KVLose has the next messages of a rank lost on their way; they can be asked for afterwards.
func (s *Server) KVLose(rank, messages int) { s.pump.Publishers()[rank].Lose(messages) }

// KVMute silences a rank, or lets it speak again.
func (s *Server) KVMute(rank int, muted bool) { s.pump.Publishers()[rank].Mute(muted) }

// KVForget empties what a rank keeps for those who missed messages.
func (s *Server) KVForget(rank int) { s.pump.Publishers()[rank].Forget() }

// kvCacheEvents is TensorRT-LLM's POST /kv_cache_events.
func (s *Server) kvCacheEvents(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, s.pump.Publishers().Drain())
}

// kvEventSources is vLLM's GET /kv_event_sources.
func (s *Server) kvEventSources(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, s.pump.Publishers().Sources())
}
