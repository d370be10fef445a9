"""A request on its way through the server, and what it is answered with when all its rows are done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest, Timing
from gpuyard.serving.protocol.tensors import Tensor, TensorSpec

Done = Callable[[InferAnswer | ProtocolError], None]


@dataclass(slots=True, eq=False)
class Ticket:
    """One request; `done` is called once."""

    request: InferRequest
    contract: Contract
    service: int
    arrived_s: float
    wall_ms: int
    done: Done
    left: int
    over: bool = False
    """Whether it has been answered, be it with an error."""
    queue_s: float = 0.0
    """By the rules: until its batch was to begin; that of the row that waited longest."""
    compute_s: float = 0.0
    rows: list[list[bytes] | None] = field(default_factory=list)
    """The outputs of each row; None where they are zeros."""

    def finish_row(self, row: int, outputs: list[bytes] | None, queue_s: float, compute_s: float) -> bool:
        """Note one row; True when it was the last."""
        if outputs is not None:
            self.rows = self.rows or [None] * self.request.rows
            self.rows[row] = outputs
        self.queue_s = max(self.queue_s, queue_s)
        self.compute_s = max(self.compute_s, compute_s)
        self.left -= 1
        return self.left == 0

    def answer(self) -> InferAnswer:
        """All rows together."""
        timing = Timing(self.queue_s, self.compute_s)
        if not self.rows:
            return InferAnswer(zeros(self.contract.outputs, self.request.rows), timing)
        rows = self.request.rows
        outputs = (
            Tensor(spec.name, spec.datatype, (rows, *spec.shape), b"".join(row[position] for row in self.rows if row))
            for position, spec in enumerate(self.contract.outputs)
        )
        return InferAnswer(tuple(outputs), timing)

    def inputs_of(self, row: int) -> list[bytes]:
        """The bytes of one row of each input."""
        found = []
        for tensor, spec in zip(self._in_order(), self.contract.inputs, strict=True):
            found.append(tensor.content[row * spec.row_bytes : (row + 1) * spec.row_bytes])
        return found

    def _in_order(self) -> list[Tensor]:
        by_name = {each.name: each for each in self.request.inputs}
        return [by_name[spec.name] for spec in self.contract.inputs]


@lru_cache(maxsize=256)
def zeros(outputs: tuple[TensorSpec, ...], rows: int) -> tuple[Tensor, ...]:
    """What an emulated model gives."""
    return tuple(Tensor(one.name, one.datatype, (rows, *one.shape), bytes(one.row_bytes * rows)) for one in outputs)


def why_refused(model: str, least_s: Iterable[float]) -> str:
    """What a client is told that comes too late; inf where one of the services asked has no slice."""
    if inf in least_s:
        return f"'{model}' has no slice at present, and gets one when the plan is revised"
    return f"'{model}' cannot answer within its SLO: too many wait"
