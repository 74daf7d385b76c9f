package enginetest

// KVAddresses are where the events of a rank are published, and where missed ones can be asked for: tcp://HOST:PORT.
func (s *Server) KVAddresses(rank int) (events, replay string) {
	return "tcp://" + s.pump.kv[rank].events, "tcp://" + s.pump.kv[rank].again
}

// KVLose has the next messages of a rank lost on their way; they can be asked for afterwards. KVMute has a rank say nothing at all.
func (s *Server) KVLose(rank, messages int) {
	p := s.pump.kv[rank]
	p.mu.Lock()
	p.dropped = messages
	p.mu.Unlock()
}

// KVMute silences a rank, or lets it speak again.
func (s *Server) KVMute(rank int, muted bool) {
	p := s.pump.kv[rank]
	p.mu.Lock()
	p.muted = muted
	p.mu.Unlock()
}

// KVForget empties what a rank keeps for those who missed messages.
func (s *Server) KVForget(rank int) {
	p := s.pump.kv[rank]
	p.mu.Lock()
	p.kept = nil
	p.mu.Unlock()
}
