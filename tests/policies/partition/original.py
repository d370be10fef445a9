"""gpulet's own inputs and results, as recorded."""

from benchmarks.gpulet import FIVE, FIVE_COLUMNS, SLO_MS, Row, asked, gpus, known, rows, service, task_lists

__all__ = ["FIVE", "FIVE_COLUMNS", "SLO_MS", "Row", "asked", "gpus", "known", "rows", "service", "task_lists"]
