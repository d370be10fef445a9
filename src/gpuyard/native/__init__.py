"""The libraries in C: where they are, compiled when the package was installed or else when one is first needed."""

from gpuyard.native.libraries import LibraryState, build_all, check_all, find, path_of

__all__ = ["LibraryState", "build_all", "check_all", "find", "path_of"]
