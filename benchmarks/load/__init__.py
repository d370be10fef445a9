"""Streams of requests, and the load generator."""
