"""The emulated GPU against published measurements and against its own requirements; writes docs/fidelity.md."""
