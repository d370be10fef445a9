"""A deployment that serves in virtual time, request by request."""
