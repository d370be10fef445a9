"""Every name that crosses a process boundary on Kubernetes: ours, under one prefix, and those of IADeep's manifests."""

from __future__ import annotations

PREFIX = "gpuyard.io/"

MEMORY = PREFIX + "gpu-memory"
"""A resource: GiB of the memory of one GPU."""
WHOLE_GPUS = PREFIX + "gpu"
"""A resource: GPUs that nobody else may use."""

GPUS_OF_NODE = PREFIX + "gpus"
"""An annotation of nodes, which the device plugin writes when GPUs or their health change: what is there, as JSON."""

DEVICES = PREFIX + "devices"
"""An annotation of pods: the numbers of their GPUs on the node, `2` or `0,1`. Written with the binding itself."""
CHOSEN_AT = PREFIX + "chosen-at"
"""...and when they were chosen, in nanoseconds since 1970."""
MODEL, COMPUTE, BANDWIDTH = PREFIX + "model", PREFIX + "compute", PREFIX + "bandwidth"
"""What users may say of a task: which model it trains, and which parts of a GPU it keeps busy alone."""

NODE = PREFIX + "node"
"""A label of SharedGPUs and TrainingTasks: the node that they are on, so that its daemon follows no others."""

ASKED_AGAIN = PREFIX + "asked-again"
"""A label of pods that wait: it changes when there is room for one, so that the scheduler asks again."""
LEADS = PREFIX + "leads"
"""A label of the one pod of the extender that binds: its service has no other."""

SCHEDULER_NAME = "gpuyard"
IADEEP_SCHEDULER_NAME = "iadeep-scheduler"

# IADeep's, and those of the GPU sharing that it stands on

THEIR_MEMORY = "gpushare/gpu-mem"
THEIR_COUNT = "gpushare/gpu-count"
THEIR_GPU_INFO = "gpushare/gpu-info"
THEIR_NODES = "gpushare"
"""A label of nodes, `true`: their manifests select nodes with GPUs by it."""
THEIR_PREFIX = "ALIYUN_COM_GPU_MEM_"
THEIR_INDEX, THEIR_POD, THEIR_DEVICE = THEIR_PREFIX + "IDX", THEIR_PREFIX + "POD", THEIR_PREFIX + "DEV"
THEIR_CONTAINER, THEIR_ASSIGNED = THEIR_PREFIX + "CONTAINER", THEIR_PREFIX + "ASSIGNED"
THEIR_CHOSEN_AT = THEIR_PREFIX + "ASSUME_TIME"

MEMORY_RESOURCES = (MEMORY, THEIR_MEMORY)
RESOURCES_OF_PODS = (MEMORY, THEIR_MEMORY, WHOLE_GPUS)
"""All that a pod may ask for; the scheduler's configuration names the same."""
