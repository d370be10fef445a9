"""Studies that need a GPU, made without one: ordinary programs, run on emulated GPUs, and what they show."""
