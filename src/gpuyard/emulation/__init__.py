"""The emulated GPU: a device timeline, its memory, and what programs and monitors see of it."""
