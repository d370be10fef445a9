"""A training script, as people write it: it knows nothing of gpuyard either, and goes on until it is stopped."""

import torch
import torchvision

model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pictures = torch.rand(64, 3, 224, 224, device="cuda")
labels = torch.randint(1000, (64,), device="cuda")
while True:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(pictures), labels).backward()
    optimizer.step()
    torch.cuda.synchronize()
