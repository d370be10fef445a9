"""What a kubelet and its device plugins say to each other, v1beta1."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gpuyard.core.message_tables import build_messages

VERSION = "v1beta1"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
REGISTER = "/v1beta1.Registration/Register"
PLUGIN_SERVICE = "v1beta1.DevicePlugin"
KUBELET_SOCKET = "kubelet.sock"
MOST_BYTES = 4 * 2**20
"""What a kubelet takes in one message: of a longer list of devices it takes none."""

_PLUGIN = """
Empty:
RegisterRequest: version=1 string, endpoint=2 string, resource_name=3 string, options=4 DevicePluginOptions
DevicePluginOptions: pre_start_required=1 bool, get_preferred_allocation_available=2 bool
ListAndWatchResponse: devices=1 *Device
Device: ID=1 string, health=2 string, topology=3 TopologyInfo
TopologyInfo: nodes=1 *NUMANode
NUMANode: ID=1 int64
PreferredAllocationRequest: container_requests=1 *ContainerPreferredAllocationRequest
ContainerPreferredAllocationRequest: available_deviceIDs=1 *string, must_include_deviceIDs=2 *string, \
allocation_size=3 int32
PreferredAllocationResponse: container_responses=1 *ContainerPreferredAllocationResponse
ContainerPreferredAllocationResponse: deviceIDs=1 *string
AllocateRequest: container_requests=1 *ContainerAllocateRequest
ContainerAllocateRequest: devicesIDs=1 *string
AllocateResponse: container_responses=1 *ContainerAllocateResponse
ContainerAllocateResponse: envs=1 string{}, mounts=2 *Mount, devices=3 *DeviceSpec, annotations=4 string{}, \
cdi_devices=5 *CDIDevice
CDIDevice: name=1 string
Mount: container_path=1 string, host_path=2 string, read_only=3 bool
DeviceSpec: container_path=1 string, host_path=2 string, permissions=3 string
PreStartContainerRequest: devicesIDs=1 *string
PreStartContainerResponse:
"""

PLUGIN_CALLS = {
    "GetDevicePluginOptions": "Empty",
    "ListAndWatch": "Empty",
    "GetPreferredAllocation": "PreferredAllocationRequest",
    "Allocate": "AllocateRequest",
    "PreStartContainer": "PreStartContainerRequest",
}
"""What a plugin is asked, and the message that asks."""


@lru_cache(maxsize=1)
def plugin_messages() -> dict[str, Any]:
    """The classes of the device plugin's messages by name."""
    return build_messages("v1beta1", _PLUGIN)
