"""What the processes of a job are started with: a command, and an environment that tells who and where they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from gpuyard.client.session import CHECKPOINTS, SAVE_EVERY, SPEED
from gpuyard.emulation.settings import PREFIX
from gpuyard.runtime.addresses import HERE
from gpuyard.runtime.records import Attempt, JobRecord

MEMORY_LIMIT = f"{PREFIX}MEMORY_LIMIT"
"""Read by emulated GPUs: the most that a program may take of one."""
TRAINER = (sys.executable, "-m", "gpuyard.client.trainer")
FIRST_PORT = 20000
PORTS = 20000
"""Of jobs with several processes, by which they find each other."""


LONGEST_NAME = 200


@dataclass(frozen=True)
class Launch:
    """How an attempt is started on one node."""

    command: tuple[str, ...]
    environment: dict[str, str]
    log: str


@dataclass(frozen=True)
class JobStarts:
    """Knows where a run's jobs keep what they save and write."""

    folder: Path
    speed: float
    save_every_s: float
    surroundings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By node, what commands are told of the machine that its GPUs are on."""
    gpus: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By node, what CUDA calls its real GPUs; emulated ones have numbers on their node."""
    hosts: dict[str, str] = field(default_factory=dict)
    """By which processes on other nodes reach those of a node, as its agent says."""

    def of(self, record: JobRecord, attempt: Attempt, node: str) -> Launch:
        """The processes of an attempt on one node."""
        home = job_folder(self.folder, record.name)
        return Launch(record.command or TRAINER, self._environment(record, attempt, node, home), str(home / "log"))

    def _environment(self, record: JobRecord, attempt: Attempt, node: str, home: Path) -> dict[str, str]:
        parts = attempt.grant.parts
        here = [part for part in parts if part.node == node]
        gpus = ",".join(self._called(node, int(part.gpu or 0)) for part in here)
        cpus = sum(part.amounts.get("cpus", 0.0) for part in here)
        memory = sum(part.amounts.get("memory_gb", 0.0) for part in here)
        nodes = attempt.grant.nodes
        port = str(port_of(record.name, attempt.number))
        master = self.hosts.get(parts[0].node, HERE)
        start_rank = next(rank for rank, part in enumerate(parts) if part.node == node)
        found = {
            CHECKPOINTS: str(home / "checkpoints"),
            SAVE_EVERY: repr(self.save_every_s),
            SPEED: repr(self.speed),
            "CUDA_VISIBLE_DEVICES": gpus,
            "WORLD_SIZE": str(len(parts)),
            "LOCAL_WORLD_SIZE": str(len(here)),
            "NODE_RANK": str(nodes.index(node)),
            "MASTER_ADDR": master,
            "MASTER_PORT": port,
            "SYNERGY_JOB_ID": record.name,
            "SYNERGY_ARCH": record.job.model,
            "SYNERGY_CPU_THIS_SERVER": f"{cpus:g}",
            "SYNERGY_MEM_THIS_SERVER": f"{memory:g}",
            "SYNERGY_GPU_THIS_SERVER": str(len(here)),
            "SYNERGY_GPUS_ALLOCATED": gpus,
            "SYNERGY_TOTAL_ITERS": str(max(record.total_steps, 0)),
            "SYNERGY_ELAPSED_ITERS": str(record.saved_steps),
            "SYNERGY_LOG_DIR": str(home),
        }
        if record.command:
            found |= self.surroundings.get(node, {})
            if limit_gb := max(part.gpu_memory_gb for part in here):
                found[MEMORY_LIMIT] = f"{limit_gb!r}GB"
        if len(parts) > 1:
            found |= {
                "SYNERGY_DISTRIBUTED": "1",
                "SYNERGY_NNODES": str(len(nodes)),
                "SYNERGY_MASTER_IP": master,
                "SYNERGY_MASTER_PORT": port,
                "SYNERGY_RANK": str(nodes.index(node)),
                "SYNERGY_START_RANK": str(start_rank),
                "SYNERGY_WORLD_SIZE": str(len(parts)),
            }
        return found

    def _called(self, node: str, gpu: int) -> str:
        return self.gpus[node][gpu] if node in self.gpus else str(gpu)


def job_folder(folder: Path, name: str) -> Path:
    """Where a job of a run keeps what it saves and writes."""
    quoted = quote(name, safe="").replace(".", "%2E")
    if len(quoted) > LONGEST_NAME:  # the names of two jobs may begin alike
        quoted = f"{quoted[:LONGEST_NAME]}-{sha256(name.encode()).hexdigest()[:16]}"
    return folder / "jobs" / quoted


def port_of(name: str, attempt: int) -> int:
    """By which the processes of an attempt meet; jobs named alike do not come to the same one, attempt by attempt."""
    return FIRST_PORT + int.from_bytes(sha256(f"{attempt} {name}".encode()).digest()[:8]) % PORTS
