"""`import torch` with and without emulation: nothing changes unless it is asked for, and what is wrong is one line."""

from collections.abc import Callable

import pytest
from tests.emulation.torch.conftest import Finished, environment

from gpuyard.emulation import nvml

pytest.importorskip("torch", reason="torch is not installed")

Run = Callable[..., Finished]


def only_line(done: Finished) -> str:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_unless_it_is_asked_for_torch_is_as_it_was_and_imports_hardly_more(run: Run) -> None:
    done = run(
        """
        import sys, torch
        assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
        assert torch.zeros(2).device.type == "cpu" and not hasattr(torch, "emu")
        for device in ("cuda", "emu"):
            try:
                torch.zeros(2, device=device)
            except (AssertionError, RuntimeError):
                continue
            raise SystemExit(f"{device} works")
        assert "gpuyard.emulation.torch" in sys.modules, "it was asked"
        print(*(name for name in sys.modules if name.startswith("gpuyard")))
        """,
        env=environment(),
    )
    hooks = {"gpuyard.emulation", "gpuyard.emulation.torch", "gpuyard.profiling", "gpuyard.profiling.recorder"}
    assert set(done.stdout.split()) == {"gpuyard", "gpuyard._version", *hooks}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpus": "2xV10"}, "'V10' is not a GPU kind gpuyard knows. Did you mean 'v100'"),
        ({"CUDA_VISIBLE_DEVICES": "0,0"}, "'0,0' names a GPU twice"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(run: Run, settings: dict[str, str], message: str) -> None:
    assert message in only_line(run("import torch", fails=True, **settings))


def test_a_torch_that_is_not_supported_is_named_with_what_to_install(run: Run) -> None:
    program = """
        import os, torch
        from gpuyard.emulation.torch import autoload
        torch.__version__ = "1.13.1"
        os.environ["GPUYARD_GPUS"] = "V100"
        autoload()
        """
    line = only_line(run(program, fails=True, env=environment()))
    assert "torch 1.13.1 is installed, but gpuyard emulates GPUs under torch 2.13" in line
    assert "pip install 'torch==2.13.*'" in line


def test_all_gpus_can_be_hidden(run: Run) -> None:
    run(
        """
        import torch
        assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2, 2]
        try:
            torch.zeros(1, device="cuda")
        except RuntimeError as error:
            assert "No CUDA GPUs are available" in str(error), error
        else:
            raise SystemExit("there is one")
        """,
        CUDA_VISIBLE_DEVICES="",
        clock="virtual",
    )


def test_visible_gpus_limits_forks_and_nvml_in_real_time(run: Run) -> None:
    done = run(
        """
        import os, torch

        def in_a_fork():
            child = os.fork()
            if not child:
                try:
                    assert torch.ones(2, device="cuda").tolist() == [1, 1]
                except BaseException as error:
                    print(error, flush=True)
                    os._exit(1)
                os._exit(0)
            return os.waitpid(child, 0)[1] == 0

        assert torch.cuda.device_count() == 2
        assert in_a_fork(), "its parent uses no GPU"
        assert "K80" in torch.cuda.get_device_name(0) and "A100" in torch.cuda.get_device_name(1)
        assert str(torch.zeros(1, device="cuda:1").device) == "cuda:1"
        assert not in_a_fork(), "its parent does"

        torch.zeros(900 << 20, dtype=torch.uint8, device="cuda")
        try:
            torch.zeros(1100 << 20, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            assert str(error).startswith("CUDA out of memory. Tried to allocate 1.07 GiB"), error
        else:
            raise SystemExit("it took more than its limit")
        assert torch.cuda.mem_get_info()[0] <= 1 << 30

        if NVML:
            assert 0 <= torch.cuda.utilization() <= 100
            assert 20 < torch.cuda.temperature() < 100
            assert torch.cuda.power_draw() > 1000
            assert "process" in torch.cuda.list_gpu_processes()
        """.replace("NVML", str(nvml.library_path() is not None)),
        gpus="2xV100+K80+A100",
        CUDA_VISIBLE_DEVICES="2,3",
        memory_limit="1GiB",
    )
    assert "Cannot re-initialize CUDA in forked subprocess" in done.stdout
