"""Programs that nobody wrote for gpuyard run in pods that ask for GPUs."""

from __future__ import annotations

import subprocess
import sys

from gpuyard import native
from testbed.cluster import until
from testbed.yard import PODS, ROOT, Yard

TRAIN = ROOT / "examples" / "emulation" / "train.py"


def test_a_cuda_program_in_c_computes_on_the_gpu_that_its_pod_was_given(yard: Yard) -> None:
    compiled = yard.cluster.folder / "compiled"
    compiled.mkdir()
    source, library = ROOT / "testbed" / "programs_of_pods" / "axpy.c", native.folder() / "libcuda.so.1"
    subprocess.run(["gcc", "-o", str(compiled / "axpy"), str(source), str(library)], check=True)
    pod = yard.pod("axpy", 3, ["/compiled/axpy"])
    pod["spec"]["volumes"].append({"name": "compiled", "hostPath": {"path": str(compiled)}})
    mount = {"name": "compiled", "mountPath": "/compiled", "readOnly": True}
    pod["spec"]["containers"][0]["volumeMounts"].append(mount)
    pod["spec"]["containers"][0]["env"] = []  # nothing but what the device plugin gives it
    yard.api.post(PODS, pod)
    yard.expect("axpy")
    until(lambda: "right on 1 Tesla V100-PCIE-32GB with 3 GiB" in yard.log("axpy"), "it has said so", seconds=30)


def test_a_pytorch_program_trains_and_one_with_too_little_memory_is_told_so(yard: Yard) -> None:
    """ResNet-50 takes 5.4 GiB of a V100; both pods run the program of the docs."""
    for name, gib in (("enough", 8), ("too-little", 4)):
        yard.api.post(PODS, yard.pod(name, gib, [sys.executable, str(TRAIN)]))
    yard.expect("enough")
    until(lambda: "Tesla V100-PCIE-32GB: 5.41 GiB at most" in yard.log("enough"), "it has said so", seconds=30)
    until(lambda: yard.phase("too-little") == "Failed", "it has failed")
    until(lambda: "OutOfMemoryError" in yard.log("too-little"), "it has said why", seconds=30)
