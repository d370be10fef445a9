"""Trains ResNet-50: an ordinary PyTorch program for a GPU."""

import torch
import torchvision

model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
images = torch.randn(64, 3, 224, 224, device="cuda")
labels = torch.randint(1000, (64,), device="cuda")
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

for step in range(1, 11):
    start.record()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    end.record()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.3f}, {start.elapsed_time(end):.1f} ms")

print(f"{torch.cuda.get_device_name()}: {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most")
