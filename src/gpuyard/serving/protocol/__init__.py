"""The Open Inference Protocol v2 with Triton's extensions: pure functions between bytes and values."""
