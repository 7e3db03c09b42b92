package relaysvc

// ForgetWatchers has a drain wait for nobody who asked whether the relay is
// ready.
func (s *Server) ForgetWatchers() { s.prober.watched.Store(0) }
