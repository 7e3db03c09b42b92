package relaysvc

// ForgetWatchers has a drain wait for nobody who asked whether the relay is
// ready.
func (s *Server) ForgetWatchers() { s.prober.watched.Store(0) }

// FirstGeneration has a store that is made begin with stream ID 1-1.
func (c *Config) FirstGeneration() { c.generation = 1 }
