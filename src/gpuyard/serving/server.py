"""The whole server: listens, serves, follows the rates, and ends in good order."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import ssl
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import uvloop

from gpuyard.core.errors import InputError
from gpuyard.core.served_names import check_served_names
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.interface import Partition
from gpuyard.serving.calls import Calls
from gpuyard.serving.contracts import emulated_contracts
from gpuyard.serving.fleet import Workers
from gpuyard.serving.following import following
from gpuyard.serving.front import Front
from gpuyard.serving.gpu.real_gpus import check_gpus
from gpuyard.serving.http.connection import Connection
from gpuyard.serving.http.routes import Routes
from gpuyard.serving.http.site import Site
from gpuyard.serving.interface import Interface
from gpuyard.serving.memory import Reserve, allow_files
from gpuyard.serving.metrics import Metrics
from gpuyard.serving.notes import note
from gpuyard.serving.planner import ServingPlanner
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.stage_tensors import application_contract
from gpuyard.serving.repository import read_repository
from gpuyard.serving.rpc import start_grpc
from gpuyard.serving.settings import TOKEN_VARIABLE, ServeSettings
from gpuyard.serving.state import StateFolder

TICK_S = 0.02
BACKLOG = 1024
LAST_LOOKS = 5
LONGEST_TURN_S = 0.0005
"""That another thread takes of the interpreter while requests wait, as when a plan is written down."""
FILES = 1024
"""That a server has open besides connections, at most: sockets to GPU processes, and what they are started with."""
TORCH_STUCK_S = 60.0
"""For real models, which may take any time."""


@dataclass(frozen=True)
class Ports:
    """Where a server listens."""

    http: int
    grpc: int

    def urls(self, settings: ServeSettings) -> str:
        """Both, as clients write them."""
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        return f"{'https' if settings.tls_cert else 'http'}://{host}:{self.http} grpc://{host}:{self.grpc}"


class Server:
    """A deployment, served."""

    def __init__(
        self, origin: Deployment, policy: Partition, settings: ServeSettings, state: StateFolder | None
    ) -> None:
        """`origin` is what is asked for; if the state folder has what it had become, it goes on from there."""
        self._services, self._policy, self._settings, self._state = origin.services, policy, settings, state
        self._deployment = (state.load() if state is not None else None) or origin
        contracts, workers = _models(origin, settings)
        self.front = Front(
            origin.services, contracts, workers, prepare_s=settings.prepare_s, applications=origin.applications
        )
        self.metrics = Metrics(self.front)
        interface = Interface(self.front)
        routes = Routes(interface, self.metrics, settings.limits)
        self._interface = interface
        self._reserve = Reserve(settings.limits.buffered_bytes)
        self._site = Site(
            routes.handle, settings.limits, self._reserve, token=settings.token,
            refused=lambda status: self.metrics.count_response(status.http),
        )  # fmt: skip
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self._unusable = ""
        """Why what is to be served cannot be."""
        self._keeper = ThreadPoolExecutor(1)
        self._kept: asyncio.Future[None] | None = None
        """That the plan in force is in the state folder, which takes longer than a request may wait."""

    def stop(self) -> None:
        """End in good order; called again, do not wait for whoever is due an answer."""
        if self._draining is not None:
            self._draining.cancel()
        self._stop.set()

    async def run(self, say_ready: Callable[[Ports], None]) -> int:
        """Serve until `stop` is called or a signal comes; returns how many requests are left without an answer."""
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self.stop)
        http = await self._listen()
        rpc, grpc_port = await self._listen_grpc()
        background = [asyncio.create_task(each) for each in (self._tick(), self._site.sweep())]
        try:
            await self._serve(lambda: say_ready(Ports(http.sockets[0].getsockname()[1], grpc_port)))
        finally:
            self._draining = asyncio.create_task(self._drain(http, rpc))
            await asyncio.wait([self._draining])
            await rpc.stop(None)
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self.front.fleet.close()
            await self._until_kept()
        if self._unusable:
            raise InputError(self._unusable, field="models", value=str(self._settings.models))
        return self.front.pending

    async def _serve(self, say_ready: Callable[[], None]) -> None:
        """Deploy, follow the rates, and wait for the end."""
        self.front.on_change, self.front.on_unusable = self._on_change, self._on_unusable
        self.front.deploy(self._deployment)
        waiting = [asyncio.create_task(each.wait()) for each in (self._ready, self._stop)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self._ready.is_set():
            await self._until_kept()
            async with self._followed():
                gc.collect()
                gc.freeze()  # looking through all that is loaded would hold requests up for some 20 ms each time
                say_ready()
                await self._stop.wait()
        for task in waiting:
            task.cancel()

    async def _listen_grpc(self) -> tuple[Any, int]:
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        return await start_grpc(
            self._interface, f"{host}:{settings.grpc_port}", Calls(settings.limits, self._reserve),
            token=settings.token, tls=settings.tls(), most=settings.limits.connections,
        )  # fmt: skip

    async def _listen(self) -> asyncio.Server:
        settings, loop = self._settings, asyncio.get_running_loop()
        context = None
        if settings.tls_cert is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            try:
                context.load_cert_chain(
                    settings.tls_cert, settings.tls_key, password=""
                )  # or OpenSSL would ask for one
            except (OSError, ssl.SSLError) as error:
                raise InputError(f"cannot be used: {error}", field="tls_cert", value=str(settings.tls_cert)) from None
        try:
            return await loop.create_server(
                lambda: Connection(self._site), settings.host, settings.http_port, ssl=context, backlog=BACKLOG
            )
        except OSError as error:
            rule = f"cannot be listened on: {error.strerror or error}"
            raise InputError(rule, field="http_port", value=settings.http_port) from None

    async def _drain(self, http: asyncio.Server, rpc: Any) -> None:
        """Take nothing new, answer what is due, close."""
        for _ in range(LAST_LOOKS):  # whoever has connected and sent by now is read, and will have an answer
            await asyncio.sleep(TICK_S)
        self.front.draining = True
        http.close()
        stopping = asyncio.ensure_future(rpc.stop(self._settings.drain_s))
        end = asyncio.get_running_loop().time() + self._settings.drain_s
        while self.front.pending and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(TICK_S)
        await self._site.drain(self._settings.drain_s)
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping, self._settings.drain_s)

    def _on_change(self, deployment: Deployment) -> None:
        self._ready.set()
        if self._state is not None:
            loop = asyncio.get_running_loop()
            self._kept = loop.run_in_executor(self._keeper, self._state.keep, deployment)

    async def _until_kept(self) -> None:
        if self._kept is not None:
            await self._kept

    def _on_unusable(self, why: str) -> None:
        """A model is of no use: a server that has never served ends, any other goes on as it is."""
        if self._ready.is_set():
            note(f"slices cannot get ready: {why}; it is tried again")
        else:
            self._unusable = why
            self.stop()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.front.tick()

    def _followed(self) -> AbstractAsyncContextManager[None]:
        """Let the rates be followed meanwhile, if they are to be."""
        if not self._settings.replan:
            return nullcontext()
        tracking = self._settings.tracking
        planner = ServingPlanner(self._deployment, self._policy, tracking, self._services)
        return following(self.front, planner, tracking)


def _models(deployment: Deployment, settings: ServeSettings) -> tuple[dict[str, Contract], Workers]:
    applications = deployment.applications
    check_served_names([str(each.service_id) for each in (*deployment.services, *deployment.asked)])
    if settings.executor == "emulated":
        contracts, workers = emulated_contracts(deployment.services, deployment), Workers()
    else:
        contracts, files = read_repository(settings.models, deployment.services)
        if settings.executor == "gpu":
            check_gpus(deployment, replan=settings.replan)
        device = "cuda" if settings.executor == "gpu" else "cpu"
        workers = Workers("torch", {"device": device, "models": files}, stuck_s=TORCH_STUCK_S)
    return contracts | {each.name: application_contract(each, contracts) for each in applications}, workers


def serve(
    origin: Deployment, policy: Partition, settings: ServeSettings, state: StateFolder | None,
    say_ready: Callable[[Ports], None],
) -> int:  # fmt: skip
    """Serve a deployment until a signal comes; returns how many requests are left without an answer."""

    async def run() -> int:
        return await Server(origin, policy, settings, state).run(say_ready)

    os.environ.pop(TOKEN_VARIABLE, None)  # no process that is started from here needs it
    sys.setswitchinterval(LONGEST_TURN_S)
    allow_files(FILES + 2 * settings.limits.connections)
    return uvloop.run(run())
