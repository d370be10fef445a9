"""Where: which node takes a job. A placement scores the nodes that have room; the lowest score wins."""
