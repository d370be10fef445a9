"""Lets torchvision be imported where its compiled part cannot be loaded.

The wheels of torchvision that most people get are built for CUDA and need torch's CUDA libraries, which a machine
without a GPU does not have. Its models and transforms are plain Python; only the declarations of a few operators are
missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from gpuyard.emulation.torch.specials import special
from gpuyard.emulation.torch.tensor import layout_of, new

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, SymInt height, "
    "SymInt width) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) "
    "-> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)

_declared: list[Any] = []


class TorchvisionFinder:
    """Looks over the import of torchvision's shoulder, and finds nothing itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Declare the operators just before torchvision is imported, and say that they exist before it asks."""
        if name == "torchvision":
            declare_operators(PathFinder.find_spec(name, path, target))
        elif name in ("torchvision._autograd_registrations", "torchvision._meta_registrations"):
            admit_operators()
        elif name == "torchvision.ops":
            sys.meta_path.remove(self)
        return None


def watch_import() -> None:
    """Be ready for a program that imports torchvision, or is importing it: it imports torch before its operators."""
    sys.meta_path.insert(0, TorchvisionFinder())
    begun = sys.modules.get("torchvision")
    if begun is not None:
        declare_operators(begun.__spec__)


def declare_operators(spec: ModuleSpec | None) -> None:
    """Declare torchvision's operators if its library was built for a torch that is not the one here."""
    if _declared or spec is None or not spec.origin or not _needs_cuda(Path(spec.origin).parent):
        return
    library = torch.library.Library("torchvision", "DEF")
    for operator in _OPERATORS:
        library.define(operator)
    library.define("_cuda_version() -> int")
    library.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")  # none that must fit torch's
    _declared.append(library)


def admit_operators() -> None:
    """Let torchvision register shapes and gradients of its operators, whose kernels are ours."""
    if _declared:
        sys.modules["torchvision.extension"]._has_ops = lambda: True
    special(torch.ops.torchvision.nms.default)(_nms)


def _nms(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Keep every box: which ones overlap is not known, and this is what takes the most memory afterwards."""
    boxes = args[0]
    gpu, count = boxes.block.gpu, boxes.shape[0]
    gpu.launch(count * count / 8 / gpu.kind.bandwidth + gpu.kind.kernel_floor_s)  # a bit for each pair
    gpu.synchronize()
    return new(layout_of(torch.empty(count, dtype=torch.int64, device="meta")), gpu)


def _needs_cuda(package: Path) -> bool:
    """Say whether the compiled part needs torch's CUDA library, and that is not here."""
    if any((Path(torch.__file__).parent / "lib").glob("libtorch_cuda*")):
        return False
    return any(b"libtorch_cuda.so" in library.read_bytes() for library in package.glob("_C*.so"))
