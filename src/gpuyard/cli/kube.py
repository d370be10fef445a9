"""gpuyard kube: tasks that share GPUs on Kubernetes."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuyard.cli.output import say

if TYPE_CHECKING:
    from gpuyard.kube.choosing import Harm

app = typer.Typer(
    help="Let training tasks share GPUs on Kubernetes: the parts that run there, and what installs and shows them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="How to reach the cluster; by default as kubectl and pods do.")
]


@app.command()
def extender(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the scheduler asks.")] = "127.0.0.1:12345",
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate; without one, plain HTTP.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who asks must show a certificate signed by this authority.")
    ] = None,
    lease_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Where replicas elect a leader; without it this is the only one.")
    ] = "",
    observations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What was measured of mixes, to place tasks by.")
    ] = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Answer kube-scheduler: which nodes have room for a pod, how good each is, and bind it to a GPU there.

    Runs until it is ended. /healthz, /readyz and /metrics are there for anybody.
    """
    from gpuyard.core.errors import InputError
    from gpuyard.kube.access import find_access
    from gpuyard.kube.api import Api
    from gpuyard.kube.extender_server import server_tls
    from gpuyard.kube.run_extender import ExtenderSettings, running_extender

    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not host or int(port) > 65535:
        raise InputError("is not HOST:PORT, as in 127.0.0.1:12345", field="listen", value=listen)
    if (tls_cert is None) != (tls_key is None) or (client_ca and not tls_cert):
        raise InputError("go together: a certificate and its key, and --client-ca with both", field="tls_cert, tls_key")
    tls = server_tls(tls_cert, tls_key, client_ca) if tls_cert and tls_key else None
    me = f"{socket.gethostname()}-{os.getpid()}"
    settings = ExtenderSettings(host.strip("[]"), int(port), tls, lease_namespace, me)
    with running_extender(Api(find_access(kubeconfig)), _harm(observations), settings, say) as server:
        say(f"answering the scheduler at {'https' if tls else 'http'}://{host}:{server.server_port}")
        signal.pause()


def _harm(observations: Path | None) -> Harm:
    from gpuyard.kube.choosing import interference_harm
    from gpuyard.policies.multiplex.interference import InterferenceModel
    from gpuyard.policies.multiplex.observation_files import read_observations

    return interference_harm(read_observations(observations) if observations else InterferenceModel())
