"""A process as a client of one shared GPU: how fast its device time passes, and what memory it may take.

These methods are called for every operation of a program, so each first tries what it knows already: the line that its
device time follows, which holds until the GPU's *generation* changes or until *horizon*, when somebody's queue ends.
Only beyond that it takes the GPU's lock and brings everybody up to date.
"""

from __future__ import annotations

from math import inf

from gpuyard.core.errors import InputError
from gpuyard.emulation.clock import Clock
from gpuyard.emulation.node.gpu_progress import ClientQueue, GpuProgress
from gpuyard.emulation.node.layout import CLIENT
from gpuyard.emulation.node.shared_gpu import BUSY, LIMIT, REAP_S, RESERVED, TAIL, SharedGpu

RECHECK_S = 0.02
"""How often, in real seconds, a wait beside others looks whether it goes faster by now."""
SAMPLE_S = 0.2
"""How often, in real seconds, samples are recorded at most: those that monitors find must reach back over WINDOW_S."""

_NOWHERE = -1
_ALLOCATED, _PEAK, _STEPS = CLIENT.word("allocated"), CLIENT.word("peak"), CLIENT.word("steps")


class SharedGpuClient:
    """One process at one GPU. Positions are device time; `now` is the node's clock."""

    __slots__ = (
        "_alone",
        "_base",
        "_busy_at",
        "_clock",
        "_generation",
        "_generation_at",
        "_horizon",
        "_number",
        "_position",
        "_rate",
        "_reals",
        "_sample_at",
        "_shared",
        "_since",
        "_tail",
        "_tail_at",
        "_words",
    )

    def __init__(self, shared: SharedGpu, number: int, clock: Clock) -> None:
        """Use `Node.connect`, which takes a client's slot first."""
        self._shared, self._number, self._clock = shared, number, clock
        self._words, self._reals = shared.words, shared.reals
        self._base = shared.base(number)
        self._tail_at, self._busy_at = self._base + TAIL, self._base + BUSY
        self._generation_at = shared.generation_at
        self._generation = -1
        self._alone = False
        self._since = self._position = self._tail = 0.0
        self._rate = 1.0
        self._horizon = self._sample_at = -inf
        shared.segment.on_close.append(self._forget)

    def device_time(self, now: float) -> float:
        """Return how far this process's time on the GPU has come."""
        if self._words[self._generation_at] == self._generation and now < self._horizon:
            return self._position + self._rate * (now - self._since)
        with self._shared.lock:
            _, queue = self._look(now)
            return queue.at(max(now, queue.clock))

    def submit(self, tail: float, now: float, busy: float) -> None:
        """Say that the queue now ends at `tail`, and that `busy` seconds of work were queued in all so far.

        Alone, or while there is work queued anyway, this changes nobody's rate and needs no lock.
        """
        generation = self._generation
        if self._words[self._generation_at] == generation and (
            self._alone or (now < self._horizon and self._position + self._rate * (now - self._since) < self._tail)
        ):
            if now >= self._sample_at:
                self._sample(now, self._position + self._rate * (now - self._since))
            self._reals[self._tail_at] = self._tail = tail
            self._reals[self._busy_at] = busy
            if self._words[self._generation_at] == generation:
                return
        with self._shared.lock:
            progress, queue = self._advance(now)
            if now >= self._sample_at:
                self._sample(now, queue.at(progress.clock))
            self._reals[self._tail_at] = queue.tail = tail
            self._reals[self._busy_at] = busy
            progress.advance(progress.clock)
            self._store(progress, queue)

    def _sample(self, now: float, position: float) -> None:
        """Leave a trace of what was done before more is queued."""
        self._sample_at = now + SAMPLE_S * self._shared.speed
        self._shared.record_sample(self._base, position)

    def reached_at(self, position: float, now: float) -> float:
        """Return when a position was reached or, if it is ahead, will be if nobody else queues anything."""
        if self._words[self._generation_at] == self._generation and position > self._position and self._rate:
            at = self._since + (position - self._position) / self._rate
            if at < self._horizon:
                return at
        with self._shared.lock:
            progress, queue = self._look(now)
            if position <= queue.at(progress.clock):
                return self._shared.passed_at(self._base, position)
        return progress.run(queue, position)

    def wait_until(self, position: float, clock: Clock) -> None:
        """Sleep until a position is reached."""
        now = clock.now()
        while self.device_time(now) < position:
            at = self.reached_at(position, now)
            clock.wait_until(at if self._alone else min(at, now + RECHECK_S * self._shared.speed))
            now = clock.now()

    def _look(self, now: float) -> tuple[GpuProgress, ClientQueue]:
        """Bring the GPU up to date."""
        progress, queue = self._advance(now)
        self._store(progress, queue)
        return progress, queue

    def _advance(self, now: float) -> tuple[GpuProgress, ClientQueue]:
        if self._number == _NOWHERE:
            raise InputError("this process has disconnected from the GPU", hint="Connect again")
        progress = self._shared.advance(now)
        return progress, progress.queues[self._shared.clients.index(self._number)]

    def _store(self, progress: GpuProgress, queue: ClientQueue) -> None:
        """Write what is new for everybody, and remember what follows for this client."""
        self._shared.write(progress)
        self._since, self._position, self._rate, self._tail = queue.clock, queue.position, queue.rate, queue.tail
        self._alone = len(progress.queues) == 1 and progress.sharing.rates(progress.queues) == [1.0]
        look_again = progress.clock + REAP_S * self._shared.speed
        self._horizon = inf if self._alone else min(progress.next_event, look_again)
        self._generation = self._words[self._generation_at]  # last: until then other threads look for themselves

    @property
    def has_neighbours(self) -> bool:
        """Whether others use the same GPU."""
        return len(self._shared.clients) > 1

    def reserve(self, nbytes: int) -> bool:
        """Take memory; False if the GPU has not so much left, or this process's limit forbids it."""
        with self._shared.lock:
            if not self._fits(nbytes):
                self._shared.reap(self._clock.now())
                if not self._fits(nbytes):
                    return False
            self._words[self._base + RESERVED] += nbytes
            return True

    def _fits(self, nbytes: int) -> bool:
        mine = self._words[self._base + RESERVED] + nbytes
        return mine <= self.memory_limit and self._shared.memory_used + nbytes <= self._shared.memory_bytes

    def release(self, nbytes: int) -> None:
        """Give memory back; after leaving, or in a forked process, there is none to give."""
        if self._is_connected:
            with self._shared.lock:
                held = self._words[self._base + RESERVED]
                self._words[self._base + RESERVED] = max(0, held - nbytes)

    def free_memory(self) -> int:
        """Return the bytes that nobody has reserved, and this process's limit still allows."""
        with self._shared.lock:
            mine = self.memory_limit - self._words[self._base + RESERVED]
            return max(0, min(mine, self._shared.memory_bytes - self._shared.memory_used))

    @property
    def memory_limit(self) -> int:
        """Most bytes that this process may reserve."""
        return self._words[self._base + LIMIT]

    def publish(self, *, allocated: int | None = None, peak: int | None = None, steps: int | None = None) -> None:
        """Tell monitors how much memory tensors use and have used at most, and how many steps are done."""
        for at, value in ((_ALLOCATED, allocated), (_PEAK, peak), (_STEPS, steps)):
            if value is not None and self._is_connected:
                self._words[self._base + at] = value

    @property
    def _is_connected(self) -> bool:
        """Whether the client is this process's own: neither disconnected nor inherited through a fork."""
        return self._number in self._shared.own and self._shared.segment.is_open

    def disconnect(self) -> None:
        """Give back the memory and the place in the queue."""
        if self._is_connected:
            with self._shared.lock:
                self._shared.disconnect(self._number, self._shared.reap(self._clock.now()))
            self._number = _NOWHERE  # another process may get the number next
            self._forget()

    def _forget(self) -> None:
        """Trust nothing that is known, so that the next call has to look."""
        self._generation = -1
