"""The GPUs of this machine as NVML tells of them, the vendor's or an emulated one: which, and which are well."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from gpuyard.core.errors import InputError, MissingExtraError
from gpuyard.kube.plugin.gpu_numbers import NvmlGpu

try:
    import pynvml
except ImportError:
    raise MissingExtraError("gpuyard kube device-plugin --real", "kube") from None

XIDS_OF_PROGRAMS = frozenset((13, 31, 43, 45, 68, 109))
"""Errors that a program has made on a sound GPU, by NVIDIA's own device plugin."""
QUIET_S = 600.0
"""A GPU that answers, and had no error for so long, is well again."""


class NvmlLibrary:
    """NVML, opened: it is asked again and again, and may have lost GPUs in between."""

    def __init__(
        self,
        say: Callable[[str], None],
        library: ModuleType | Any = pynvml,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open it; InputError where there is no driver."""
        self._say, self._nvml, self._clock = say, library, clock
        self._failed_at: dict[str, float] = {}
        """When a GPU last had an error that is its own."""
        self._answered: dict[str, bool] = {}
        self._events: Any = None
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            hint = "Start it where NVIDIA's driver is, or name emulated GPUs by --emulated"
            raise InputError(f"needs a driver with NVML: {error}", field="real", value="true", hint=hint) from None

    def gpus(self) -> list[NvmlGpu]:
        """All that are there now and can be offered; one that is cut into MIG instances is left alone."""
        found = []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                gpu = NvmlGpu(
                    self._nvml.nvmlDeviceGetUUID(handle),
                    self._nvml.nvmlDeviceGetName(handle),
                    self._nvml.nvmlDeviceGetMemoryInfo(handle).total,
                    self._nvml.nvmlDeviceGetMinorNumber(handle),
                )
                if self._is_cut(handle):
                    self._say(f"GPU {gpu.uuid} is in MIG mode and is not offered: its instances are not for gpuyard")
                    continue
            except self._nvml.NVMLError as error:
                self._say(f"GPU {index} of NVML says nothing of itself and is not offered: {error}")
                continue
            found.append(gpu)
        self._watch([gpu.uuid for gpu in found])
        return found

    def healthy(self, uuids: list[str]) -> Mapping[str, bool]:
        """Whether each answers now, and has had no error of its own for a while."""
        self._hear_errors()
        now = self._clock()
        for uuid, failed_at in list(self._failed_at.items()):
            if now - failed_at >= QUIET_S:
                del self._failed_at[uuid]
        return {uuid: self._answers(uuid) and uuid not in self._failed_at for uuid in uuids}

    def _is_cut(self, handle: Any) -> bool:
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(handle)
        except self._nvml.NVMLError:  # one that cannot be cut
            return False
        return bool(current == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def _answers(self, uuid: str) -> bool:
        try:
            self._nvml.nvmlDeviceGetMemoryInfo(self._nvml.nvmlDeviceGetHandleByUUID(uuid))
            answers, why = True, ""
        except self._nvml.NVMLError as error:
            answers, why = False, str(error)
        if answers != self._answered.get(uuid, True):
            self._say(f"GPU {uuid} answers again" if answers else f"GPU {uuid} does not answer: {why}")
            if answers:  # what was watched before is not watched any more
                self._watch([uuid])
        self._answered[uuid] = answers
        return answers

    def _watch(self, uuids: list[str]) -> None:
        """Hear of errors (XID) from now on, where the driver tells of them."""
        try:
            self._events = self._events or self._nvml.nvmlEventSetCreate()
            for uuid in uuids:
                handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, self._events)
        except self._nvml.NVMLError as error:
            self._say(f"errors of GPUs are not told by this driver ({error}): only those that are lost are noticed")

    def _hear_errors(self) -> None:
        """Note all errors that have come by now."""
        while self._events is not None:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                uuid, xid = self._nvml.nvmlDeviceGetUUID(event.device), int(event.eventData)
            except (
                self._nvml.NVMLError
            ):  # there is none, or nobody knows of which GPU: one that is lost does not answer
                return
            if xid in XIDS_OF_PROGRAMS:
                continue
            self._say(f"GPU {uuid} has had error XID {xid}: nobody gets it for {QUIET_S / 60:g} minutes")
            self._failed_at[uuid] = self._clock()
