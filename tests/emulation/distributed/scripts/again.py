"""Ends the group and makes it again, as programs do that run several experiments."""

import torch
import torch.distributed as dist
from tests.emulation.distributed.scripts.rank import begin, found


def main(rank: int) -> None:
    dist.destroy_process_group()
    begin()
    tensor = torch.tensor([rank], device="cuda")
    dist.all_reduce(tensor)
    found["again"] = tensor.tolist()
