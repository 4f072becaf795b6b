package proxy

// Unhealthy returns which endpoints of an upstream are to be skipped by their checks.
func (s *Server) Unhealthy(name string) (all []bool) {
	for _, u := range s.snap.Load().upstreams {
		if u.Name == name {
			for i := range u.ends {
				all = append(all, u.unhealthy(i))
			}
		}
	}
	return all
}
