"""Runs collectives on an engine, on given data or on made ones, with a report."""

import pkgutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.host.buffers import to_array
from multitree.host.engines import (
    CLOCKED_ENGINES,
    ENGINES,
    Collective,
    Engine,
    Plan,
    check_runs_here,
    defined,
    why_not,
)
from multitree.host.report import WorkReport, report_on
from multitree.host.report_keys import keys_of
from multitree.host.work import Outcome, checked_op
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.offload import WRITE_CYCLES, Host
from multitree.sim.timing.trace import Trace
from multitree.topology.algorithms.build import build_compact
from multitree.topology.algorithms.registry import COMPARED
from multitree.topology.checks.implicit import AnySchedule, hash_of, verify_any, written_out
from multitree.topology.collectives import DTYPES, OPS_OF, Op, as_bits
from multitree.topology.errors import ScheduleError, meant, not_one_of
from multitree.topology.networks.cost_model import CostModel
from multitree.topology.networks.topology import Topology
from multitree.topology.schedules.schedule import Schedule

__all__ = ["Runner", "Seeded", "check_some_ran", "make_buffers", "open_engine"]


def make_buffers(seed: int, num_ranks: int, n: int, dtype: str) -> npt.NDArray[Any]:
    """Seeded buffers of shape (num_ranks, n), for which the order of additions matters.

    Floats are normal values with exponents spread over 2^±20, int32 takes all values.
    """
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, (num_ranks, n), dtype=np.int32)
    scale = np.ldexp(np.float32(1), rng.integers(-20, 21, (num_ranks, n), dtype=np.int32))
    values = rng.standard_normal((num_ranks, n), dtype=np.float32) * scale
    return values.astype(DTYPES[dtype], copy=False)


@dataclass(frozen=True)
class Seeded:
    """Data that a simulation makes: type of elements, op and seed; ValueError if one is unknown."""

    dtype: str = "float32"
    op: str = "sum"
    seed: int = 1

    def __post_init__(self) -> None:
        """Check all, and give the op its one name."""
        if self.dtype not in DTYPES:
            raise ValueError(not_one_of("Dtype", self.dtype, DTYPES))
        try:
            object.__setattr__(self, "op", checked_op(self.op, self.dtype))
        except TypeError as error:
            raise ValueError(str(error)) from None
        if self.seed < 0:
            raise ValueError(f"Seed must be at least 0, not {self.seed!r}")

    def of(self, schedule: Schedule, size_bytes: int) -> Collective:
        """A collective with buffers of so many bytes per rank."""
        shape = schedule.topology.num_ranks, size_bytes // DTYPES[self.dtype].itemsize
        return Collective.of(Plan(schedule), make_buffers(self.seed, *shape, self.dtype), self.op)


# Classes are imported when they are opened: the rtl engine needs an HDL, from which it is compiled.
_HOMES = {
    "numpy": "multitree.host.engines:NumpyEngine",
    "torch": "multitree.host.engines:TorchEngine",
    "analytic": "multitree.host.engines:AnalyticEngine",
    "exact": "multitree.host.engines:ExactEngine",
    "rtl": "multitree.host.rtl_engine:RtlEngine",
}


def open_engine(
    name: str, topology: Topology, link_model: LinkModel, *, timed: bool = False, **options: Any
) -> Engine:
    """Open an engine with data, or one with a clock if it is to be `timed`; never another one.

    ValueError if it has not what is asked for, EngineError if it cannot run on this machine,
    TopologyError if it cannot run this topology.
    """
    if timed and name not in CLOCKED_ENGINES:
        known = ", ".join(CLOCKED_ENGINES)
        wrong = f"Engine must be one with a clock ({known}), not {name!r}"
        raise ValueError(wrong + meant(name, CLOCKED_ENGINES))
    if not timed and name in CLOCKED_ENGINES and name not in ENGINES:
        raise ValueError(f"Engine must carry data (numpy, torch or rtl), not {name!r}")
    if not timed and name not in ENGINES:
        raise ValueError(not_one_of("Engine", name, ENGINES))
    next_down = "numpy"
    if timed:
        next_down = "exact" if name == "rtl" and why_not("exact") is None else "analytic"
    check_runs_here(name, next_down=next_down)
    engine: Engine = pkgutil.resolve_name(_HOMES[name])(topology, link_model, **options)
    return engine


class Runner(AbstractContextManager["Runner"]):
    """An engine on a topology, which stays between collectives; to be closed, or in a `with`.

    The engine has to carry data, or with `must_time` to have a clock. `check` compares every
    rank's memory with `execute`. `host` is what loads tables and makes calls. Options go to the
    engine: `lockstep`, `progress`; of rtl `waveform`, `backdoor`, `num_threads`, `say`. Errors are
    those of `open_engine`, and ValueError for an option that the engine does not have.
    """

    def __init__(
        self,
        topology: Topology,
        engine: str,
        *,
        link_model: LinkModel | None = None,
        must_time: bool = False,
        check: bool = False,
        host: Host | None = None,
        **options: Any,
    ) -> None:
        options = _options_of(engine, host or Host(), options)
        self.topology = topology
        self.link_model = link_model or LinkModel()
        self._check, self._host = check, host
        if engine not in ENGINES:
            # A model asks it how long loading takes, which interfaces measure.
            options["host"] = host
        self.engine = open_engine(engine, topology, self.link_model, timed=must_time, **options)

    @classmethod
    def timed(cls, topology: Topology, engine: str, **options: Any) -> "Runner":
        """One whose engine has a clock, and which compares data wherever there are any."""
        return cls(topology, engine, must_time=True, check=True, **options)

    def run(
        self, collective: Collective, then: Collective | None = None
    ) -> tuple[Outcome, WorkReport]:
        """Run a collective, timed without what the engine has to build; `then` is what follows."""
        engine, plan = self.engine, collective.plan
        # What it compiles or wires is not part of the time of the run.
        engine.prepare(collective)
        if then is not None:
            engine.expect(then)
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = engine.run(collective)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        exact = None
        if self._check and engine.data:
            exact = _is_exact(collective, outcome, self.link_model.flit_bytes)
        report = report_on(
            plan.any_schedule,
            engine=engine.name,
            size_bytes=collective.size_bytes,
            link_model=plan.applied_to(self.link_model),
            cycles=outcome.cycles,
            link_utilization=outcome.link_utilization,
            ports=outcome.ports,
            loading_cycles=engine.loading_cycles(collective),
            host=self._host,
            exact=exact,
            wall_seconds=wall,
            cpu_seconds=cpu,
        )
        return outcome, report

    def simulate(
        self, schedule: AnySchedule, size_bytes: int, data: Seeded | None = None
    ) -> tuple[WorkReport, Trace]:
        """Verify a schedule and run it on made data, `size_bytes` per rank, whole elements.

        One that is a tree, translated, is timed by the engine analytic, and written out for others.
        The report's `exact` says whether every rank's memory equals `execute` bit for bit. Raises
        ScheduleError if the schedule is wrong or does not fit, ValueError if it adds nothing and
        the op is not "sum", DeviceError if an interface faults.
        """
        if self.engine.name != "analytic":
            schedule = schedule.schedule()
        verify_any(schedule)
        data = data or Seeded()
        if Op.REDUCE not in OPS_OF[schedule.collective] and data.op != "sum":
            raise ValueError(
                f"Op must be sum where nothing is added, as in {schedule.collective}, "
                f"not {data.op!r}"
            )
        made = Collective(Plan(schedule), size_bytes)
        if self.engine.data:
            made = data.of(schedule.schedule(), size_bytes)
        outcome, report = self.run(made)
        assert outcome.trace is not None, "an engine with a clock makes a trace"
        return report, outcome.trace

    def cost_model(self, size_bytes: int) -> CostModel:
        """What builders have to know that suit a schedule to a size."""
        return self.link_model.cost_model(self.topology, self.link_model.num_flits(size_bytes, 1))

    def compare(
        self, size_bytes: int, algorithms: Sequence[str] = COMPARED, data: Seeded | None = None
    ) -> list[dict[str, Any]]:
        """All-reduces of several algorithms, each a dict; what is unknown is None.

        It has the algorithm's name, schedule_hash, steps_reduce_scatter, steps_all_gather, what
        `WorkReport` says of time, and error: why it has no schedule, or cannot be run.
        """
        results = []
        for algorithm in algorithms:
            schedule = report = problem = None
            try:
                cost_model = self.cost_model(size_bytes)
                schedule = written_out(
                    build_compact(self.topology, algorithm, cost_model=cost_model)
                )
                report, _ = self.simulate(schedule, size_bytes, data)
            except ScheduleError as error:
                problem = str(error)
            results.append(_compared(algorithm, schedule, report, problem))
        return results

    def close(self) -> None:
        """Give back what the engine holds, and finish a waveform."""
        self.engine.close()

    def __exit__(self, *error: object) -> None:
        """Close it; an error goes on."""
        self.close()


def _options_of(engine: str, host: Host, options: dict[str, Any]) -> dict[str, Any]:
    """Options for an engine; raises where it does not have them, or a report no place for them."""
    if options.get("waveform") is not None and engine != "rtl":
        raise ValueError(f"Waveform must come from engine 'rtl', not {engine!r}")
    if options.get("backdoor") and engine != "rtl":
        raise ValueError(f"Backdoor must be that of engine 'rtl', not {engine!r}")
    if options.get("backdoor") and host.call_us:
        raise ValueError(
            "Host us must be 0 with the backdoor, which leaves unknown how long an offload takes, "
            f"not {host.call_us:g}"
        )
    if engine == "rtl" and host.write_cycles != WRITE_CYCLES:
        raise ValueError(
            f"Write cycles must be {WRITE_CYCLES} with engine 'rtl', whose hosts write so, not "
            f"{host.write_cycles}"
        )
    only_of_rtl = () if engine == "rtl" else ("waveform", "backdoor", "num_threads", "say")
    return {name: value for name, value in options.items() if name not in only_of_rtl}


def _is_exact(collective: Collective, outcome: Outcome, flit_bytes: int) -> bool:
    """Whether every rank's memory equals `execute` bit for bit."""
    expected = as_bits(defined(collective, flit_bytes))
    return bool((expected == as_bits(to_array(outcome.memory))).all())


def _compared(
    algorithm: str, schedule: AnySchedule | None, report: WorkReport | None, error: str | None
) -> dict[str, Any]:
    """One algorithm's entry; without a report all its figures are None."""
    found = {} if report is None else asdict(report)
    found |= {"algorithm": algorithm, "error": error}
    if schedule is not None:
        found["schedule_hash"] = hash_of(schedule)
        for steps in ("steps_reduce_scatter", "steps_all_gather"):
            found[steps] = getattr(schedule, steps)
    return {key: found.get(key) for key in keys_of("compare.results")}


def check_some_ran(topology: Topology, results: Sequence[dict[str, Any]]) -> None:
    """Raise ScheduleError, with each one's reason, where no algorithm ran to be compared."""
    if all(result["error"] is not None for result in results):
        reasons = {result["algorithm"]: result["error"] for result in results}
        reasons_text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ScheduleError(f"{topology.name}: at least one algorithm must run, but {reasons_text}")
