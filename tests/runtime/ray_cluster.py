"""A Ray cluster of several raylets on loopback: `python -m tests.runtime.ray_cluster NODES` until its stdin ends.

In a process of its own, with a folder of its own, so that no other Ray of this machine is found or finds it. Says its
address and the raylets' processes as one line of JSON. Further lines of stdin, each a number: so many nodes join.
"""

import itertools
import json
import socket
import sys
from typing import Any

from ray.cluster_utils import Cluster

HEAD = "127.0.0.2"
SMALL = 80_000_000
QUICK = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 4}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def ports() -> dict[str, Any]:
    """Stated ones: Ray does not wait long for helpers to find their own, however busy the machine is."""
    names = ("metrics_agent_port", "runtime_env_agent_port", "dashboard_agent_listen_port", "metrics_export_port")
    return {name: free_port() for name in names}


def main(nodes: int) -> None:
    common: dict[str, Any] = {"object_store_memory": SMALL, "include_dashboard": False}
    head = {"num_cpus": 0, "node_ip_address": HEAD, "_system_config": QUICK, **ports(), **common}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    hosts = (f"127.0.0.{number}" for number in itertools.count(3))
    grow = nodes
    while True:
        added = [
            cluster.add_node(num_cpus=4, num_gpus=2, node_ip_address=next(hosts), **ports(), **common)
            for _ in range(grow)
        ]
        raylets = [node.all_processes["raylet"][0].process.pid for node in added]
        print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
        line = sys.stdin.readline()
        if not line:
            break
        grow = int(line)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
