"""`torch.cuda` under emulation: no function of it gives away that there is no GPU."""

# mypy: allow-untyped-calls

import inspect
import threading

import pytest
import torch

ELSEWHERE = {"clock_rate", "list_gpu_processes", "memory_usage", "power_draw", "temperature", "utilization", "cudart"}
"""What torch asks NVML, which knows nothing of virtual time, and CUDA's runtime itself."""


def test_what_is_asked_first() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.cuda.is_initialized()
    assert torch.version.cuda
    assert torch.backends.cudnn.is_available()
    assert torch.cuda.get_device_name() == "Tesla V100-PCIE-32GB"
    assert torch.cuda.get_device_capability() == (7, 0)
    properties = torch.cuda.get_device_properties("cuda:1")
    assert (properties.name, properties.major, properties.minor) == (torch.cuda.get_device_name(), 7, 0)
    assert properties.multi_processor_count == 80
    assert "sm_70" in torch.cuda.get_arch_list()
    assert not torch.cuda.is_bf16_supported(including_emulation=False)
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 2
    assert str(torch.accelerator.current_accelerator()) == "cuda"


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in torch.cuda.__all__
        if inspect.isfunction(getattr(torch.cuda, name, None)) and name not in ELSEWHERE
        and not any(
            each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
            for each in inspect.signature(getattr(torch.cuda, name)).parameters.values()
        )
    ),
)  # fmt: skip
def test_every_function_without_arguments_answers(name: str) -> None:
    getattr(torch.cuda, name)()


def test_threads_have_a_current_gpu_and_stream_of_their_own() -> None:
    found: list[object] = []
    other = torch.cuda.Stream()

    def work() -> None:
        found.append((torch.cuda.current_device(), torch.cuda.current_stream() == torch.cuda.default_stream()))
        torch.cuda.set_device(1)
        found.append((torch.cuda.current_device(), str(torch.zeros(1, device="cuda").device)))

    with torch.cuda.stream(other):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert torch.cuda.current_stream() == other
    assert found == [(0, True), (1, "cuda:1")]
    assert torch.cuda.current_device() == 0
