"""A job with much preparation: CPUs are the limit."""

from pipeline import train

train(prepare_ms=14, gpu_ms=20, disk_mbps=9)
