"""The random functions of `torch.cuda`: each GPU has a generator of its own, apart from the host's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from gpuyard.emulation.torch.moves import index_of
from gpuyard.emulation.torch.state import state


def _index(device: Any) -> int:
    index = index_of(device)
    return state.current if index is None else index


def manual_seed(seed: int) -> None:
    """Seed the current GPU."""
    state.generator(state.current).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every GPU."""
    for index in range(len(state.session.kinds) if state.session else 0):
        state.generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current GPU by chance."""
    state.generator(state.current).seed()


def seed_all() -> None:
    """Seed every GPU by chance, all alike."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """Return the seed of the current GPU."""
    return state.generator(state.current).initial_seed()


def get_rng_state(device: Any = "cuda") -> torch.Tensor:
    """Return the state of a GPU's generator."""
    return state.generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
    """Set the state of a GPU's generator."""
    if len(new_state) >= len(state.generator(_index(device)).get_state()):
        state.generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all generators."""
    return [get_rng_state(index) for index in range(len(state.session.kinds) if state.session else 0)]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states of all generators."""
    for index, new_state in enumerate(new_states):
        set_rng_state(new_state, index)


_Metaclass: Any = type(torch._C.Generator)


class _GeneratorType(_Metaclass):
    """Lets every generator of torch count as one of ours."""

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


class Generator(torch.Generator, metaclass=_GeneratorType):
    """A generator that may be asked for on a GPU; it draws on the host, where the few real numbers come from."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        """Make it on the host whatever is asked for."""
        made = super().__new__(cls)
        made._gpu = index_of(device)
        return made

    _gpu: int | None

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Return where it was asked for."""
        return torch.device("cpu") if self._gpu is None else torch.device("cuda", self._gpu)
