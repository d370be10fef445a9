"""A load generator: sends requests to an inference server when they are due, whatever the answers do."""
