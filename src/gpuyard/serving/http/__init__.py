"""HTTP/1.1: connections that bound what a client may cost, and the protocol's paths."""
