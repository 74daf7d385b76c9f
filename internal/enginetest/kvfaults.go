package enginetest

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/enginetest/api"
)

// KVAddresses are the addresses of a rank's events and of their replay: tcp://HOST:PORT.
func (s *Server) KVAddresses(rank int) (events, replay string) {
	return s.pump.Publishers()[rank].Addresses()
}

// KVSubscribed reports whether a rank's events have a subscriber (vLLM, SGLang).
func (s *Server) KVSubscribed(rank int) bool { return s.pump.Publishers()[rank].Subscribed() }

// KVLose drops the next messages of a rank in transit; they can be replayed.
func (s *Server) KVLose(rank, messages int) { s.pump.Publishers()[rank].Lose(messages) }

// KVMute stops or resumes a rank's events.
func (s *Server) KVMute(rank int, muted bool) { s.pump.Publishers()[rank].Mute(muted) }

// KVForget empties a rank's replay buffer.
func (s *Server) KVForget(rank int) { s.pump.Publishers()[rank].Forget() }

// kvCacheEvents is TensorRT-LLM's POST /kv_cache_events.
func (s *Server) kvCacheEvents(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, s.pump.Publishers().Drain())
}

// kvEventSources is vLLM's GET /kv_event_sources.
func (s *Server) kvEventSources(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, s.pump.Publishers().Sources())
}
