"""These tests run inside a process that emulates GPUs; `test_inside.py` starts it. Elsewhere they are not collected."""

import os

collect_ignore_glob = [] if os.environ.get("GPUYARD_GPUS") else ["test_*.py"]
