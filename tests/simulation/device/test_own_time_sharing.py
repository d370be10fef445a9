"""A time sharing of one's own: the simulator goes by its rates, and says in one line what is wrong with it."""

from pathlib import Path

import pytest
from tests.simulation.device.builders import MS, job, run, times_ms

from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharedJob, SharingExperiment
from gpuyard.emulation.settings import Settings
from gpuyard.emulation.shared_experiment import emulate_sharing
from gpuyard.simulation.device.engine import share
from gpuyard.simulation.device.queues import queue_lengths

BY_SHARE = f"{Path(__file__).resolve().parents[3] / 'examples' / 'yard_policies.py'}:ByShare"


def jobs(**shares: float) -> list[SharedJob]:
    """10 ms of work each, all from the beginning."""
    return [job(name, share=each, arrivals_s=(0.0,)) for name, each in shares.items()]


def own(folder: Path, body: str) -> str:
    """A time sharing in a file of its own."""
    file = folder / "mine.py"
    text = f"from gpuyard.policies.timeshare import TimeSharing\n\n\nclass Mine(TimeSharing):\n    {body}\n"
    file.write_text(text)
    return f"{file}:Mine"


def test_its_rates_decide() -> None:
    # A quarter and three quarters: the second is done at 13.33, and the first has two thirds of its 10 ms left then.
    done = run(jobs(first=0.25, second=0.75), "none", sharing=BY_SHARE).done()
    assert times_ms(done, 0) == pytest.approx([20.0])
    assert times_ms(done, 1) == pytest.approx([40 / 3])


def test_an_experiment_may_name_it() -> None:
    experiment = SharingExperiment(tuple(jobs(first=0.25, second=0.75)), 0.1, policy="none", sharing=BY_SHARE)
    (gpu,) = share(experiment)
    assert gpu.now == pytest.approx(20 * MS)
    assert queue_lengths(experiment)["time_s"].max() == pytest.approx(20 * MS)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def rates(self, claims): return [0.0] * len(claims)", "its rates must be a list of 1, one for each claim"),
        ("def rates(self, claims): return [1.0]", "its rates must be a list of 2, one for each claim"),
        ("def rates(self, claims): return [1.5, 0.5]", "from 0 to 1 and not all 0"),
        ("def rates(self, claims): return [-0.5, 0.5]", "from 0 to 1 and not all 0"),
        ("def rates(self, claims): return [float('nan'), 0.5]", "from 0 to 1 and not all 0"),
        ("def rates(self, claims): return None", "its rates must be a list of 1, one for each claim"),
        ("def rates(self, claims): return [1 / 0]", "row 5, field policy: 'Mine' raised ZeroDivisionError"),
        ("def held_share(self, share): return 2\n    rates = None", "its held_share must be a part of a GPU"),
        (
            "def held_share(self, share): return 0.75\n    rates = None",
            "field sharing: 'Mine' promises 1.5 of a GPU to its 2 jobs",
        ),
        ("takes_turns = True\n    rates = None", "takes turns"),
        ("pass", "abstract method rates"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        run(jobs(first=0.5, second=0.5), "none", sharing=own(tmp_path, body))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_only_has_the_method_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def rates(self, claims): return [1.0]\n")
    with pytest.raises(InputError, match=r"Mine' is not derived from gpuyard\.policies\.timeshare\.TimeSharing"):
        run(jobs(first=0.5), sharing=f"{tmp_path / 'mine.py'}:Mine")


def test_emulated_gpus_refuse_it_before_anything_is_started() -> None:
    refused = r"field sharing: .*ByShare' is not shipped with gpuyard: emulated GPUs are shared by a library in C"
    with pytest.raises(InputError, match=refused):
        emulate_sharing(SharingExperiment(tuple(jobs(first=0.5)), 0.1, sharing=BY_SHARE))
    with pytest.raises(InputError, match=refused):
        Settings("V100", sharing=BY_SHARE).check()
    with pytest.raises(InputError, match=r"'fifoo' is not a sharing policy\. Did you mean 'fifo'"):
        Settings("V100", sharing="fifoo").check()
