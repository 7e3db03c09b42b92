package relaysvc

// limits returns the limits that hold now.
func (s *Server) limits() *Limits { return s.bounds.Load() }

// Reload takes over new limits, of which zero stands for the default, and
// reads the certificate anew. It changes nothing when the limits are wrong, and
// keeps the certificate when the new one does not load. What is open or stored
// beyond a lower limit stays; BodyMemory stays as it was at the start. Codes:
// invalid_argument, storage_failed.
func (s *Server) Reload(limits Limits) error {
	if err := limits.check(); err != nil {
		return err
	}
	s.bounds.Store(&limits)
	s.hub.bound(limits.StreamsPerIdentity, limits.Streams)
	s.connections.bound(places(limits.Connections))
	if s.certificate == nil {
		return nil
	}
	return s.certificate.reload(s.config.Clock())
}

// bound changes the limits of streams. Streams over a lower one stay open.
func (h *hub) bound(perIdentity, limit int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.perIdentity, h.limit = perIdentity, limit
}
