"""What comes before and after a collective: tables loaded, calls of a host."""

from dataclasses import dataclass

from multitree.nic.driver.commands import COMMIT, RunSettings, run_writes
from multitree.nic.driver.table import compile_table, table_writes
from multitree.sim.timing.link_model import LinkModel
from multitree.sim.timing.sizing import beyond_interfaces, config_for, least_sizes, rows_per_rank
from multitree.topology.lowering import as_sent
from multitree.topology.schedules.schedule import Schedule

__all__ = ["WRITE_CYCLES", "Host"]

WRITE_CYCLES = 6
"""Cycles from one register write to the next of the emulated hosts."""
_ROW_CYCLES, _ROUTED_ROW_CYCLES, _FLOW_CYCLES = 5, 7, 8
"""Of the checker, per row and flow (nic/control/checker.py)."""
_STATUS_CYCLES = 28
"""Until a host that polls the status has seen that the table is checked; 18 to 40 in RTL."""
# Which ones does not matter: all are written.
_SETTINGS = RunSettings("float32", 0, 0, 0, 0)


@dataclass(frozen=True)
class Host:
    """Host of an interface: how fast it loads a table, and the time of its calls. Raises ValueError
    for figures out of range.
    """

    write_cycles: int = WRITE_CYCLES  # from one register write to the next
    call_us: float = 0.0  # from a call to the start of the interfaces, and from done to return

    def __post_init__(self) -> None:
        if self.write_cycles < 1:
            raise ValueError(f"Write cycles must be at least 1, not {self.write_cycles!r}")
        if not 0 <= self.call_us < float("inf"):
            raise ValueError(f"Host us must be at least 0 and finite, not {self.call_us!r}")

    def loading_cycles(
        self,
        schedule: Schedule,
        num_flits: int,
        link_model: LinkModel,
        *,
        lockstep: bool = False,
    ) -> int | None:
        """Cycles to load tables and settings, all ranks at the same time, until they are checked;
        None where no interface holds the tables, or none can be built for the network.

        The rank with the most rows counts; within 32 cycles of the emulated hosts.
        """
        sent, sizes = as_sent(schedule), least_sizes(schedule, num_flits, lockstep=lockstep)
        if beyond_interfaces(sent, sizes) is not None:
            return None
        try:
            config = config_for(sent.topology, link_model, **sizes)
        except ValueError:
            # The engine analytic times what is beyond interfaces, such as more links at a rank.
            return None
        rank = int(rows_per_rank(sent, lockstep=lockstep).argmax())
        table = compile_table(sent, rank, num_flits, config, lockstep=lockstep)
        writes = [*table_writes(table), *run_writes(_SETTINGS), COMMIT]
        row_cycles = _ROUTED_ROW_CYCLES if config.shared else _ROW_CYCLES
        checks = row_cycles * table.num_rows + _FLOW_CYCLES * table.num_flows
        # Two counts per flow of the interface are cleared at the same time.
        checked = max(checks, 2 * config.num_flows)
        return self.write_cycles * len(writes) + checked + _STATUS_CYCLES

    def offload_us(self, cycles: int, loading_cycles: int, link_model: LinkModel) -> float:
        """Microseconds from a call to its return: loading, the collective, and the host."""
        return link_model.microseconds(loading_cycles + cycles) + self.call_us
