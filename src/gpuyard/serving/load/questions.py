"""What is asked of a server besides inference: what its models take, and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Protocol

import orjson

from gpuyard.core.errors import GpuyardError, InputError, nearest
from gpuyard.serving.load.grpc_sender import UNLIMITED, credentials, metadata
from gpuyard.serving.load.target import Target
from gpuyard.serving.protocol.messages import SERVICE, messages

PATIENCE_S = 10.0


@dataclass(frozen=True)
class Counted:
    """A server's statistics of one model."""

    succeeded: int
    failed: int
    rows: int
    """Inferences: each row of a batch that a client sends is one."""
    succeeded_ns: int
    """Time of all requests that succeeded, as the server saw it."""


class Answers(Protocol):
    """A server that answers questions about models; an unknown model is None."""

    def inputs(self, model: str) -> list[tuple[str, str, list[int]]] | None:
        """Name, datatype and shape of each input."""

    def counted(self, model: str) -> Counted | None:
        """What the server has counted so far."""

    def models(self) -> list[str]:
        """The names of its models."""


def answers_of(target: Target) -> Answers:
    """Somebody to ask, by the target's protocol."""
    return _OverGrpc(target) if target.grpc else _OverHttp(target)


def unknown_model(answers: Answers, model: str) -> InputError:
    """What to say about a model that the server does not have."""
    known = answers.models()
    hint = nearest(model, known) if known else "The server names no models"
    return InputError("is not a model of the server", field="model", value=model, hint=hint)


def _unreachable(target: Target, why: object) -> GpuyardError:
    return GpuyardError(f"{target} cannot be reached: {why}. Is the server running, and is that its address?")


def _silent(target: Target, about: str, missing: str) -> GpuyardError:
    return GpuyardError(f"{target} does not say {about}: its answer has no {missing}")


class _OverHttp:
    def __init__(self, target: Target) -> None:
        self._target = target

    def inputs(self, model: str) -> list[tuple[str, str, list[int]]] | None:
        found = self._ask("GET", self._target.path(model))
        if found is None:
            return None
        try:
            return [(each["name"], each["datatype"], [int(size) for size in each["shape"]]) for each in found["inputs"]]
        except (KeyError, TypeError, ValueError):
            raise _silent(self._target, f"what {model} takes", "inputs with name, datatype and shape") from None

    def counted(self, model: str) -> Counted | None:
        found = self._ask("GET", self._target.path(model, "stats"))
        if found is None:
            return None
        try:
            stats = found["model_stats"][0]
            success, fail = stats["inference_stats"]["success"], stats["inference_stats"]["fail"]
            return Counted(success["count"], fail["count"], stats["inference_count"], success["ns"])
        except (KeyError, TypeError, IndexError):
            raise _silent(self._target, f"what became of requests to {model}", "model_stats as Triton has") from None

    def models(self) -> list[str]:
        found = self._ask("POST", f"{self._target.prefix}/v2/repository/index")
        return [each["name"] for each in found or [] if "name" in each]

    def _ask(self, method: str, path: str) -> Any:
        """The answer as JSON; None if there is no such thing."""
        try:
            status, body = self._exchange(method, path)
        except (OSError, HTTPException) as error:
            raise _unreachable(self._target, error) from None
        if status == 404:
            return None
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        if status != 200 or found is None:
            raise GpuyardError(f"{self._target} answered {method} {path} with {status}: {body[:200]!r}")
        return found

    def _exchange(self, method: str, path: str) -> tuple[int, bytes]:
        target, tls = self._target, self._target.tls()
        connection = (
            HTTPSConnection(target.host, target.port, timeout=PATIENCE_S, context=tls)
            if tls else HTTPConnection(target.host, target.port, timeout=PATIENCE_S)
        )  # fmt: skip
        try:
            connection.request(method, path, headers=dict(_authorization(target)))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _authorization(target: Target) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {target.token}")] if target.token else []


class _OverGrpc:
    def __init__(self, target: Target) -> None:
        self._target = target

    def inputs(self, model: str) -> list[tuple[str, str, list[int]]] | None:
        found = self._ask("ModelMetadata", name=model)
        return None if found is None else [(each.name, each.datatype, list(each.shape)) for each in found.inputs]

    def counted(self, model: str) -> Counted | None:
        found = self._ask("ModelStatistics", name=model)
        if found is None or not found.model_stats:
            return None
        stats = found.model_stats[0]
        success, fail = stats.inference_stats.success, stats.inference_stats.fail
        return Counted(success.count, fail.count, stats.inference_count, success.ns)

    def models(self) -> list[str]:
        found = self._ask("RepositoryIndex")
        return [each.name for each in found.models] if found is not None else []

    def _ask(self, method: str, **fields: str) -> Any:
        """The answer; None if there is no such thing."""
        import grpc

        kinds = messages()
        with self._channel() as channel:
            call = channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=kinds[f"{method}Response"].FromString,
            )
            try:
                return call(
                    kinds[f"{method}Request"](**fields), timeout=PATIENCE_S, metadata=metadata(self._target)
                )  # fmt: skip
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return None
                raise _unreachable(self._target, f"{error.code().name}: {error.details()}") from None

    def _channel(self) -> Any:
        import grpc

        if self._target.secure:
            return grpc.secure_channel(self._target.address, credentials(self._target), UNLIMITED)
        return grpc.insecure_channel(self._target.address, UNLIMITED)
