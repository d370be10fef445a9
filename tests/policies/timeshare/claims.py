"""Claims on a GPU, built in a test or told in a line."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True)
class Claimant:
    """A process with work queued."""

    priority: int = 0
    share: float = 1.0
    demand: float = 1.0
    ticket: int = 0


def claimants(claims: Iterable[Claimant]) -> list[Claimant]:
    """Give a ticket to each that has none, in order."""
    return [replace(claim, ticket=claim.ticket or place) for place, claim in enumerate(claims, start=1)]


def scenario(told: str) -> tuple[list[Claimant], list[float]]:
    """Read `name [attribute=number …] -> rate; …`: the claims, and the rate that each must get."""
    claims, rates = [], []
    for line in told.split(";"):
        claim, _, rate = line.partition("->")
        texts = dict(word.split("=") for word in claim.split() if "=" in word)
        parts = {name: float(texts.get(name, 1)) for name in ("share", "demand")}
        claims.append(Claimant(int(texts.get("priority", 0)), **parts, ticket=int(texts.get("ticket", 0))))
        rates.append(float(Fraction(rate.strip())))
    return claimants(claims), rates
