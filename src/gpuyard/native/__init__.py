"""The libraries in C: where they are, compiled when the package was installed or else when one is first needed."""

from gpuyard.native.libraries import LibraryState, build_all, build_script, check_all, find, folder

__all__ = ["LibraryState", "build_all", "build_script", "check_all", "find", "folder"]
