"""Runs schedules on an engine with a clock, on data that show a wrong order."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.host.engines import WITHOUT_DATA, Plan, RtlEngine, check_runs_here, why_not
from multitree.host.report import WorkReport, report_on
from multitree.host.runner import run_on
from multitree.host.work import checked_op
from multitree.sim.analytic.engine import analytic
from multitree.sim.emulator.verilator import Say
from multitree.sim.emulator.waveform import Waveform
from multitree.sim.exact.engine import exact
from multitree.sim.link_model import LinkModel
from multitree.sim.offload import WRITE_CYCLES, Host
from multitree.sim.rtl.session import Progress
from multitree.sim.trace import Trace
from multitree.topology.checks.verify import verify
from multitree.topology.collectives import DTYPES, OPS_OF, Op
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["CLOCKED_ENGINES", "Simulator", "make_buffers"]

CLOCKED_ENGINES = (*WITHOUT_DATA, "rtl")
SEED = 1


def make_buffers(seed: int, num_ranks: int, n: int, dtype: str) -> npt.NDArray[Any]:
    """Seeded buffers for which the order of additions matters.

    Parameters
    ----------
    seed : int
        Equal seeds give equal buffers.
    num_ranks, n : int
        Shape of the result.
    dtype : str
        "float32", "bfloat16": normal values with exponents spread over 2^±20. "int32": all values.

    Returns
    -------
    array of the type, shape (num_ranks, n)
    """
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, (num_ranks, n), dtype=np.int32)
    scale = np.ldexp(np.float32(1), rng.integers(-20, 21, (num_ranks, n), dtype=np.int32))
    values = rng.standard_normal((num_ranks, n), dtype=np.float32) * scale
    return values.astype(DTYPES[dtype], copy=False)


def _checked_host(host: Host | None, engine: str, backdoor: bool) -> Host:
    """A host that the engine has, and whose time the report has a place for."""
    host = host or Host()
    if backdoor and host.call_us:
        raise ValueError(
            "Host us must be 0 with the backdoor, which leaves unknown how long an offload takes, "
            f"not {host.call_us:g}"
        )
    if engine == "rtl" and host.write_cycles != WRITE_CYCLES:
        raise ValueError(
            f"Write cycles must be {WRITE_CYCLES} with engine 'rtl', whose hosts write so, not "
            f"{host.write_cycles}"
        )
    return host


class Simulator(AbstractContextManager["Simulator"]):
    """An engine with a clock, for one topology; the rtl engine stays compiled between runs.

    To be closed, or used in a `with` statement.

    Parameters
    ----------
    topology : Topology
    engine : str
        "analytic", "exact" or "rtl".
    dtype : str
        "float32", "int32" or "bfloat16"; matters only where data are carried.
    op : str
        "sum", "max" or "average" (or "avg"; floats only); the same.
    seed : int
        Of the data.
    link_model : LinkModel, optional
        Clock, flits, buffers and memory.
    lockstep : bool
        Interfaces wait out the estimated time of every step, as in the paper.
    waveform : Waveform, optional
        Where the rtl engine dumps its first run.
    backdoor : bool
        The rtl engine puts tables into the interfaces' memories without the bus: the run is the
        same, and how long loading takes is not known.
    host : Host, optional
        How fast tables are loaded, and what calls take, for the reports' `loading_cycles` and
        `offload_us`; the rtl engine measures the loading of its own hosts.
    num_threads : int, optional
        Of the emulation; by default one per core.
    progress, say : callable, optional
        Called with the cycles run, and with what takes long.

    Raises
    ------
    ValueError
        If the engine has no clock, or cannot do what is asked.
    EngineError
        If it cannot run on this machine.
    TopologyError
        If it cannot run this topology.
    """

    def __init__(
        self,
        topology: Topology,
        engine: str,
        *,
        dtype: str = "float32",
        op: str = "sum",
        seed: int = SEED,
        link_model: LinkModel | None = None,
        lockstep: bool = False,
        waveform: Waveform | None = None,
        backdoor: bool = False,
        host: Host | None = None,
        num_threads: int | None = None,
        progress: Progress | None = None,
        say: Say | None = None,
    ) -> None:
        if engine not in CLOCKED_ENGINES:
            known = ", ".join(CLOCKED_ENGINES)
            raise ValueError(f"Engine must be one with a clock ({known}), not {engine!r}")
        if dtype not in DTYPES:
            raise ValueError(f"Dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
        try:
            self.op = checked_op(op, dtype)
        except TypeError as error:
            raise ValueError(str(error)) from None
        if seed < 0:
            raise ValueError(f"Seed must be at least 0, not {seed!r}")
        if waveform is not None and engine != "rtl":
            raise ValueError(f"Waveform must come from engine 'rtl', not {engine!r}")
        if backdoor and engine != "rtl":
            raise ValueError(f"Backdoor must be that of engine 'rtl', not {engine!r}")
        self._host = _checked_host(host, engine, backdoor)
        self.topology = topology
        self._dtype = dtype
        self._seed = seed
        self._model = link_model or LinkModel()
        self._lockstep = lockstep
        self._timed: Callable[..., Trace] = analytic
        if engine == "exact":
            check_runs_here("exact", next_down="analytic")
            self._timed = partial(exact, progress=progress)
        self._rtl: RtlEngine | None = None
        if engine == "rtl":
            next_down = "exact" if why_not("exact") is None else "analytic"
            check_runs_here("rtl", next_down=next_down)
            self._rtl = RtlEngine(
                topology,
                self._model,
                lockstep=lockstep,
                waveform=waveform,
                backdoor=backdoor,
                num_threads=num_threads,
                progress=progress,
                say=say,
            )

    def cost_model(self, size_bytes: int) -> CostModel:
        """What builders have to know that suit a schedule to a size."""
        return self._model.cost_model(self.topology, self._model.num_flits(size_bytes, 1))

    def run(self, schedule: Schedule, size_bytes: int) -> WorkReport:
        """The report of `run_traced`."""
        return self.run_traced(schedule, size_bytes)[0]

    def run_traced(self, schedule: Schedule, size_bytes: int) -> tuple[WorkReport, Trace]:
        """Verify a schedule and run it on one buffer per rank.

        Parameters
        ----------
        schedule : Schedule
            On the simulator's topology.
        size_bytes : int
            Bytes of one rank's buffer, a multiple of 4.

        Returns
        -------
        report : WorkReport
            `exact` says whether every rank's memory equals `execute` bit for bit; None where the
            engine carries no data.
        trace : Trace
            When each message went.

        Raises
        ------
        ScheduleError
            If the schedule is wrong or does not fit.
        ValueError
            If it adds nothing, and the op is another one than "sum".
        DeviceError
            If an interface faults.
        """
        verify(schedule)
        if Op.REDUCE not in OPS_OF[schedule.collective] and self.op != "sum":
            raise ValueError(
                f"Op must be sum where nothing is added, as in {schedule.collective}, "
                f"not {self.op!r}"
            )
        if self._rtl is not None:
            shape = schedule.topology.num_ranks, size_bytes // DTYPES[self._dtype].itemsize
            memory = make_buffers(self._seed, *shape, self._dtype)
            outcome, report = run_on(
                self._rtl,
                Plan(schedule),
                memory,
                link_model=self._model,
                op=self.op,
                check=True,
                host=self._host,
            )
            assert outcome.trace is not None, "an engine with a clock makes a trace"
            return report, outcome.trace
        wall, cpu = time.perf_counter(), time.process_time()
        num_flits = self._model.num_flits(size_bytes, 1)
        trace = self._timed(schedule, num_flits, self._model, lockstep=self._lockstep)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        report = report_on(
            schedule,
            engine=trace.engine,
            size_bytes=size_bytes,
            link_model=self._model,
            cycles=trace.cycles,
            link_utilization=trace.link_utilization,
            exact=None,
            wall_seconds=wall,
            cpu_seconds=cpu,
            loading_cycles=self._host.loading_cycles(
                schedule, num_flits, self._model, lockstep=self._lockstep
            ),
            host=self._host,
        )
        return report, trace

    def close(self) -> None:
        """Give back the network, and finish a waveform."""
        if self._rtl is not None:
            self._rtl.close()

    def __exit__(self, *error: object) -> None:
        """Close it; an error goes on."""
        self.close()
