"""The run folder: what every engine writes and every report reads."""

from gpuyard.results.folders import default_folder, is_run
from gpuyard.results.schema import ENDED, JOBS_SCHEMA, TIMELINE_SCHEMA, WAIT_COLUMNS
from gpuyard.results.store import Run, load_run
from gpuyard.results.summary import summarise

__all__ = [
    "ENDED",
    "JOBS_SCHEMA",
    "TIMELINE_SCHEMA",
    "WAIT_COLUMNS",
    "Run",
    "default_folder",
    "is_run",
    "load_run",
    "summarise",
]
