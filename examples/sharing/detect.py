"""A detector that looks at a picture now and then, as people write it: it knows nothing of gpuyard."""

import time

import torch
import torchvision

model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None).cuda().eval()
picture = torch.rand(3, 480, 640, device="cuda")
milliseconds = []
with torch.no_grad():
    for _ in range(8):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model([picture])
        torch.cuda.synchronize()
        milliseconds.append(1000 * (time.perf_counter() - start))
        time.sleep(0.1)
middle = sorted(milliseconds[2:])[3]
print(f"half of the pictures took no longer than {middle:.0f} ms")
