"""A job with little preparation: the GPU is the limit almost everywhere."""

from pipeline import train

train(prepare_ms=2, gpu_ms=20, disk_mbps=16)
