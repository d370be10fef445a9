"""Trains ResNet-50 on one GPU per process: `torchrun --nproc-per-node 2 train_data_parallel.py`."""

import os

import torch
import torch.distributed as dist
import torchvision

gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torchvision.models.resnet50().cuda(), device_ids=[gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
images = torch.randn(64, 3, 224, 224, device="cuda")
labels = torch.randint(1000, (64,), device="cuda")
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

for _ in range(8):
    start.record()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    end.record()

torch.cuda.synchronize()
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} GPUs: {start.elapsed_time(end):.0f} ms per step")
dist.destroy_process_group()
