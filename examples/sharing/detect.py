"""A detector that is shown a picture now and then, as people write it: it knows nothing of gpuyard."""

import statistics
import time

import torch
import torchvision

PICTURES = 7

model = torchvision.models.detection.fcos_resnet50_fpn(weights=None, weights_backbone=None).cuda().eval()
picture = torch.rand(3, 720, 1280, device="cuda")
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
milliseconds = []
with torch.no_grad():
    for _ in range(PICTURES):
        start.record()
        model([picture])
        end.record()
        torch.cuda.synchronize()
        milliseconds.append(start.elapsed_time(end))
        time.sleep(0.1)
print(f"a picture takes {statistics.median(milliseconds[1:]):.0f} ms")
