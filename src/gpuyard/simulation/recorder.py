"""The timeline as it grows: pages that are filled by kernels and turned into a table at the end."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuyard.core.arrays import Floats, Ints, Small
from gpuyard.core.books import DEMANDS
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.ledger import Ledger
from gpuyard.core.workload import Workload
from gpuyard.results import ENDED
from gpuyard.simulation.job_lines import Log, new_log

PAGE = 1 << 16


class Recorder:
    """Keeps the spans of a run, or nothing at all when switched off."""

    def __init__(self, enabled: bool, gpus: int) -> None:
        self.enabled = enabled
        self._size = max(PAGE, 4 * gpus)
        self._full: list[Log] = []
        self._log = new_log(self._size, 2 * self._size) if enabled else new_log(0, 0)

    def page(self, ledger: Ledger) -> Log:
        """Return a page with room for the end of every span that is open now."""
        log = self._log
        if self.enabled:
            holders = int(ledger.books.busy[0])
            spans, gpu_ids = len(log.job) - log.filled[0], len(log.gpu_ids) - log.filled[1]
            if spans < holders or gpu_ids < len(ledger.books.gpu_free) + holders:
                self._full.append(_trimmed(log))
                self._log = log = new_log(self._size, 2 * self._size)
        return log

    def table(self, workload: Workload, gpu_numbers: Small) -> pl.DataFrame:
        """Return all spans, in the order in which they ended; `gpu_numbers` are what the user calls the GPUs."""
        pages = [*self._full, _trimmed(self._log)]
        job: Small = np.concatenate([page.job for page in pages])
        amounts: Floats = np.concatenate([page.amounts for page in pages])
        ended = np.concatenate([page.ended for page in pages])
        gpu_ids: Small = gpu_numbers[np.concatenate([page.gpu_ids for page in pages])]
        widths = np.maximum(workload.gpus, 1).astype(np.int64)[job]
        return pl.DataFrame(
            {
                "job_id": workload.job_id[job],
                "start_s": np.concatenate([page.start for page in pages]),
                "end_s": np.concatenate([page.end for page in pages]),
                "gpu_ids": _lists(gpu_ids, widths),
                **{name: amounts[:, r] for r, name in enumerate(RESOURCES[:DEMANDS])},
                "speed": amounts[:, DEMANDS],
                "ended": pl.Series(ended, dtype=pl.Int8).replace_strict(
                    list(range(len(ENDED))), list(ENDED), return_dtype=pl.String
                ),
            }
        )


def _trimmed(log: Log) -> Log:
    spans, gpu_ids = log.filled
    return Log(
        log.job[:spans].copy(), log.start[:spans].copy(), log.end[:spans].copy(), log.amounts[:spans].copy(),
        log.ended[:spans].copy(), log.gpu_ids[:gpu_ids].copy(), log.filled,
    )  # fmt: skip


def _lists(values: Small, widths: Ints) -> pl.Series:
    rows = np.repeat(np.arange(len(widths)), widths)
    frame = pl.DataFrame({"row": rows, "gpu": values})
    return frame.group_by("row", maintain_order=True).agg("gpu")["gpu"] if len(widths) else pl.Series(
        "gpu", [], dtype=pl.List(pl.Int32)
    )  # fmt: skip
