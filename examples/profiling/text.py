"""A job with little preparation and a slow disk: the cache is the limit."""

from pipeline import train

train(prepare_ms=3, gpu_ms=16, disk_mbps=3)
