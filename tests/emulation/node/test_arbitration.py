"""The benchmark of sharing runs on little time."""

from benchmarks import arbitration


def test_arbitration_gives_figures() -> None:
    figures = arbitration.run(seconds=0.2)
    assert all(figure.value > 0 for figure in figures)
    assert [figure.name for figure in figures if figure.limit]
