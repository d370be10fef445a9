"""The run folder: what every engine writes and every report reads."""

from gpuyard.results.folders import is_run
from gpuyard.results.inputs import run_inputs
from gpuyard.results.leftovers import tidy
from gpuyard.results.locks import claim
from gpuyard.results.naming import folder_name
from gpuyard.results.programs import summarise_programs
from gpuyard.results.reservation import Reservation, check_writable, reserve, reserve_next
from gpuyard.results.schema import ENDED, TABLES, WAIT_COLUMNS
from gpuyard.results.serving import OUTCOMES, StageFigures, summarise_serving
from gpuyard.results.sharing import summarise_sharing, write_study_logs
from gpuyard.results.store import Run, load_run, notes_of
from gpuyard.results.summary import shared_gpu_use, summarise

__all__ = [
    "ENDED",
    "OUTCOMES",
    "TABLES",
    "WAIT_COLUMNS",
    "Reservation",
    "Run",
    "StageFigures",
    "check_writable",
    "claim",
    "folder_name",
    "is_run",
    "load_run",
    "notes_of",
    "reserve",
    "reserve_next",
    "run_inputs",
    "shared_gpu_use",
    "summarise",
    "summarise_programs",
    "summarise_serving",
    "summarise_sharing",
    "tidy",
    "write_study_logs",
]
