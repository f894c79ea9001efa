"""The monitoring port of a program that holds chips, as libtpu has it: RuntimeMetricService.

It answers GetRuntimeMetric, ListSupportedMetrics and GetTpuRuntimeStatus of the gRPC package
tpu.monitoring.runtime, whose messages tpu-info has; those used are written here byte by byte.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import grpc

from ..model.shared.chips import Core, Program, Report
from .unix_grpc import UnixGrpc
from .wire import field, strings

SERVICE = "/tpu.monitoring.runtime.RuntimeMetricService/"
DUTY_CYCLE = "tpu.runtime.tensorcore.dutycycle.percent"
MEMORY_USED = "tpu.runtime.hbm.memory.usage.bytes"
MEMORY = "tpu.runtime.hbm.memory.total.bytes"
IDLE = "tpu.runtime.tensorcore.idle_duration.seconds"
METRICS = (DUTY_CYCLE, MEMORY_USED, MEMORY, IDLE)
WORKERS = 8
_TENSOR_CORE = _TENSOR_CORE_SEQUENCER = 1
_HUGE = 2 << 20
_BAD_TEXT = "\x1b[2J\x1b]0;owned\x07\u202e" + "x" * 5000

Look = Callable[[str], tuple[Report, str] | None]
"""Returns what a machine reports, and how its answers are not a runtime's; None: it has none."""


def metric(name: str, report: Report) -> bytes:
    """Return the MetricResponse of one of METRICS."""
    values: dict[str, Mapping[int, float]] = {
        DUTY_CYCLE: report.duty_cycle,
        MEMORY_USED: report.memory_used,
        MEMORY: report.memory,
        IDLE: {core.number: core.idle for core in report.cores},
    }
    found = values[name].items()
    return field(1, field(1, name) + b"".join(field(3, _gauge(*one)) for one in found))


def _gauge(device: int, value: float) -> bytes:
    attribute = field(1, "device-id") + field(2, field(3, device))
    return field(1, attribute) + field(3, field(2 if isinstance(value, int) else 1, value))


def status(host: str, cores: tuple[Core, ...], hlo: bool) -> bytes:
    """Return a GetTpuRuntimeStatusResponse."""
    entries = [field(1, core.number) + field(2, _state(core, hlo)) for core in cores]
    return field(1, host) + b"".join(field(2, entry) for entry in entries)


def _state(core: Core, hlo: bool) -> bytes:
    on_chip = field(1, _TENSOR_CORE) + field(2, 0)
    parts = [
        field(1, field(1, core.number) + field(2, core.chip) + field(3, on_chip)),
        field(2, _sequencer(core, hlo)),
        field(3, 0),
        field(5, core.launched.launch_id),
        *(field(6, _queued(program)) for program in core.queued),
    ]
    if core.hlo:
        parts.append(field(4, core.launched.fingerprint))
    if core.error:
        parts.append(field(7, core.error))
    return b"".join(parts)


def _sequencer(core: Core, hlo: bool) -> bytes:
    shown = field(1, _TENSOR_CORE_SEQUENCER) + field(2, 0) + field(7, core.launched.run_id)
    return shown + (field(8, core.hlo) if hlo and core.hlo else b"")


def _queued(program: Program) -> bytes:
    return field(1, program.run_id) + field(2, program.launch_id) + field(3, program.fingerprint)


def _hostile(method: str, how: str) -> bytes | None:
    """Return an answer that no runtime gives; None where this one stays as it is."""
    if how == "huge":
        return field(1, b"\0" * _HUGE)
    if how == "garbage":
        return b"\xff" * 64
    if how == "numbers" and method == "GetRuntimeMetric":
        return field(1, field(3, _gauge(0, float("nan"))))
    if how and method == "GetTpuRuntimeStatus":
        core = field(5, -(2**31)) if how == "numbers" else field(7, _BAD_TEXT)
        return field(2, field(1, 0) + field(2, core))
    return None


class MonitoringGrpc(UnixGrpc):
    """Answers for all machines on one Unix socket; the name of the caller's socket names which.

    With an `address` it listens there too, on a free `port`, and looks for the machine "".
    """

    def __init__(self, look: Look, address: str = "") -> None:
        self._look = look
        super().__init__("monitoring", WORKERS)
        self.port = self._server.add_insecure_port(f"{address}:0") if address else 0
        self._closing = threading.Event()

    def stop(self) -> None:
        """End, also what is silent."""
        self._closing.set()
        super().stop()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a method, if there is one."""
        method = details.method.removeprefix(SERVICE)
        if method not in ("GetRuntimeMetric", "ListSupportedMetrics", "GetTpuRuntimeStatus"):
            return None

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            return self._answer(method, request, context)

        return grpc.unary_unary_rpc_method_handler(answer)

    def _answer(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        machine = caller(context.peer())
        report, how = self._look(machine) or (None, "")
        if report is None:
            # It raises.
            return bytes(context.abort(grpc.StatusCode.UNAVAILABLE, "no program holds a chip"))
        if how == "silent":
            while context.is_active() and not self._closing.wait(0.1):
                pass
        hostile = _hostile(method, how)
        if hostile is not None:
            return hostile
        if method == "ListSupportedMetrics":
            return b"".join(field(1, field(1, name)) for name in METRICS)
        if method == "GetTpuRuntimeStatus":
            return status(machine, report.cores, hlo=bool(request) and request[-1] == 1)
        name = strings(request).get(1, "")
        if name not in METRICS:
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no metric {name}")
        return metric(name, report)


def socket_name(machine: str, number: int) -> str:
    """Return the name of the socket by which a relay calls for a machine, in Linux's own names."""
    return f"\0tpu-monitoring/{machine}/{number}"


def caller(peer: str) -> str:
    """Return for which machine a call comes."""
    words = peer.partition("tpu-monitoring/")[2].split("/")
    return words[0]
