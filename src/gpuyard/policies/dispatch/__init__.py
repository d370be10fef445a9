"""What becomes of a request from its arrival to its answer: the rules by which any world serves a deployment."""
