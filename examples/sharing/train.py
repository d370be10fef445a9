"""A training script, as people write it: it knows nothing of gpuyard either."""

import time

import torch
import torchvision

model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pictures = torch.rand(64, 3, 224, 224, device="cuda")
labels = torch.randint(1000, (64,), device="cuda")
steps, end = 0, time.monotonic() + 60
while time.monotonic() < end:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(pictures), labels).backward()
    optimizer.step()
    torch.cuda.synchronize()
    steps += 1
print(f"{steps} steps")
