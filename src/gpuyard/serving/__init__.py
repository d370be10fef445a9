"""A server for inference on slices of GPUs: front end, GPU processes, and the protocol that clients speak."""
