"""Trains an object detector of torchvision on images of different sizes, and lets it detect."""

import torch
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn, retinanet_resnet50_fpn
from torchvision.ops import batched_nms, box_iou

cuda = torch.device("cuda")


def samples() -> tuple[list[torch.Tensor], list[dict[str, torch.Tensor]]]:
    """Two images, with one box and with two."""
    images = [torch.rand(3, 96, 128, device=cuda), torch.rand(3, 128, 96, device=cuda)]
    boxes = [[[5.0, 5.0, 40.0, 40.0]], [[10.0, 10.0, 60.0, 60.0], [20.0, 30.0, 50.0, 80.0]]]
    targets = [
        {"boxes": torch.tensor(each, device=cuda), "labels": torch.ones(len(each), dtype=torch.int64, device=cuda)}
        for each in boxes
    ]
    return images, targets


def main() -> None:
    for build in (fasterrcnn_mobilenet_v3_large_320_fpn, retinanet_resnet50_fpn):
        model = build(weights=None, weights_backbone=None, num_classes=3, min_size=96, max_size=160).to(cuda)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.005, momentum=0.9)
        images, targets = samples()
        for step in range(2):
            losses = model(images, targets)
            loss = sum(losses.values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"{build.__name__} step {step} " + " ".join(f"{name} {value:.3f}" for name, value in losses.items()))
        model.eval()
        with torch.no_grad():
            found = model(images)
        assert len(found) == len(images)
        for each in found:
            assert each["boxes"].shape == (len(each["scores"]), 4)
    boxes = torch.rand(50, 4, device=cuda)
    assert box_iou(boxes, boxes).shape == (50, 50)
    assert batched_nms(boxes, torch.rand(50, device=cuda), torch.zeros(50, device=cuda), 0.5).is_cuda


if __name__ == "__main__":
    main()
