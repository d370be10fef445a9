"""The paper's figures again. `python -m benchmarks.paper` checks their shapes and fills docs/fidelity.md."""
