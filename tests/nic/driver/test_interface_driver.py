"""The driver's refusals: what does not fit is not written."""

import re

import pytest

from multitree.nic.driver.commands import HostOp, OpKind
from multitree.nic.driver.config import Config
from multitree.nic.driver.faults import DeviceError
from multitree.nic.driver.interface_driver import Driver
from multitree.nic.driver.registers import ADDRESS, ID, VERSION, register_field
from multitree.nic.driver.table import compile_table
from multitree.topology.algorithms.build import build
from multitree.topology.families.direct import torus


def operations(steps, registers):
    """What is done on the bus of an interface with such registers, in order."""
    done, values = [], None
    try:
        while True:
            batch = steps.send(values)
            done += batch
            values = [registers.get(op.address, 0) for op in batch if op.kind == OpKind.READ]
    except StopIteration:
        return done


@pytest.mark.parametrize("less", [{}, {"TABLE_DEPTH": 1}, {"FLOW_DEPTH": 1}])
def test_a_table_is_written_only_where_its_rows_and_flows_have_places(less):
    table = compile_table(build(torus(3, 3), "multitree"), 2, 40, Config())
    fits = {"ID": ID, "VERSION": VERSION, "TABLE_DEPTH": table.num_rows, "FLOW_DEPTH": 9}
    assert table.num_flows == 9
    sizes = fits | {name: fits[name] - lack for name, lack in less.items()}
    steps = Driver(2).load_table(table)
    registers = {ADDRESS[name]: value for name, value in sizes.items()}
    if not less:
        assert sum(op.kind == OpKind.WRITE for op in operations(steps, registers)) > table.num_rows
        return
    ((name, _),) = less.items()
    what = "rows" if name == "TABLE_DEPTH" else "flows"
    text = f"{what} of the table must be at most {sizes[name]}, not {fits[name]}"
    with pytest.raises(DeviceError, match=re.escape(text)):
        operations(steps, registers)


def test_a_reset_is_awaited_whatever_fault_it_ends():
    bits = (1 << bit for bit in range(32))
    fault = next(bit for bit in bits if register_field("STATUS", "fault", bit))
    *_, last = operations(Driver(0).reset(), {ADDRESS["STATUS"]: fault})
    assert last == HostOp.read(ADDRESS["STATUS"])
