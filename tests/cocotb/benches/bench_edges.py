"""What hosts seldom do: any word in a register, any table, counts near their end."""

import itertools

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp
from cocotbext.axi.axil_channels import (
    AxiLiteARTransaction,
    AxiLiteAWTransaction,
    AxiLiteWTransaction,
)

from multitree.nic.control.register_file import readable, writable
from multitree.nic.driver.commands import COMMIT, START, count_addresses
from multitree.nic.driver.faults import FaultCode
from multitree.nic.driver.registers import (
    ADDRESS,
    FLOW_WINDOW,
    PORT_COUNTERS,
    PORT_WINDOW,
    TABLE_WINDOW,
    identity,
)
from multitree.sim.cocotb.case import STALLS
from tests.cocotb.benches.bench_random import draw_settings, load_and_start
from tests.cocotb.bins import bins
from tests.cocotb.models.driving import cleared
from tests.cocotb.models.environment import CONFIG, Environment
from tests.cocotb.models.random_table import Round, draw_plan

NUM_WORDS, NUM_ACCESSES, NUM_TABLES, NUM_ROUNDS = 8, 60, 24, 6
BUS_BYTES = TABLE_WINDOW.base + TABLE_WINDOW.stride * TABLE_WINDOW.count
FIRST_FREE = ADDRESS["ACTIVE_CRC"] + 4
LAST_COUNT = (1 << 32) - 1
NO_COUNTS = ("CREDITS_LOW", "FLITS_FORWARDED")
"""Counters of a port that keep the least, and that stay 0 where nothing is forwarded."""
ILLEGAL_ROW, ILLEGAL_FLOW = 1 << 22, 1 << 4
"""Reserved bits of a row's first word and of a flow's last one."""


async def begin(dut):
    """An environment whose links are up."""
    env = await Environment.started(dut, bins())
    env.choose_stalls(STALLS[:2])
    return env


async def access(host, address, *, strobe=None, word=0):
    """The answer to a read, or to a write where there is a strobe; any address, also an odd one."""
    aw, w, b, ar, r = host.channels
    if strobe is None:
        await ar.send(AxiLiteARTransaction(araddr=address, arprot=0))
        return (await r.recv()).rresp
    await aw.send(AxiLiteAWTransaction(awaddr=address, awprot=0))
    await w.send(AxiLiteWTransaction(wdata=word, wstrb=strobe))
    return (await b.recv()).bresp


@cocotb.test()
async def every_register_keeps_any_word(dut):
    env = await begin(dut)
    for _ in range(NUM_WORDS):
        drawn = {name: env.rng.getrandbits(32) for name in writable()}
        for words in (drawn, {name: word ^ LAST_COUNT for name, word in drawn.items()}):
            await env.host.write_all((ADDRESS[name], word) for name, word in words.items())
            for name, word in words.items():
                assert await env.host.read(name) == word, name
    for name, word in identity(CONFIG).items():
        assert await env.host.read(name) == word, name
    for name in readable(waves=True):
        await env.host.read(name)
    # No bit of a command: nothing happens.
    await env.host.write(ADDRESS["CONTROL"], LAST_COUNT & ~0xF)
    assert not await env.host.status("busy")


@cocotb.test()
async def what_is_no_register_answers_with_an_error(dut):
    env = await begin(dut)
    draw = env.rng.randrange
    begin_ports, end_ports = PORT_WINDOW.base, PORT_WINDOW.address(CONFIG.num_ports, 0)
    end_rows = TABLE_WINDOW.address(CONFIG.table_depth, 0)
    end_flows = FLOW_WINDOW.address(CONFIG.num_flows, 0)
    for _ in range(NUM_ACCESSES):
        word, part = env.rng.getrandbits(32), draw(15)
        answers = [
            await access(env.host, draw(end_ports, BUS_BYTES, 4)),
            await access(env.host, draw(FIRST_FREE, begin_ports, 4)),
            await access(env.host, draw(TABLE_WINDOW.base, end_rows, 4) + draw(1, 4), strobe=15),
            await access(env.host, ADDRESS[env.rng.choice(writable())], strobe=part, word=word),
            await access(env.host, draw(FIRST_FREE, FLOW_WINDOW.base, 4), strobe=15, word=word),
            await access(env.host, draw(end_flows, TABLE_WINDOW.base, 4), strobe=15, word=word),
            await access(env.host, draw(end_rows, BUS_BYTES, 4), strobe=15, word=word),
        ]
        assert all(answer == AxiResp.SLVERR for answer in answers), answers


def entry_writes(row, flow):
    """Writes that store the words of the first row and of the first flow."""
    words = [(TABLE_WINDOW.base + 4 * k, word) for k, word in enumerate(row)]
    return words + [(FLOW_WINDOW.base + 4 * k, word) for k, word in enumerate(flow)]


async def refused(env, writes):
    """What a commit of some words ends in; then the interface is reset."""
    await env.host.write_all((*writes, COMMIT))
    await cleared(env.host, "busy")
    code = (await env.host.fault()).code
    await env.reset(env.rng.getrandbits(32))
    return code


@cocotb.test()
async def a_table_of_any_words_is_refused(dut):
    env = await begin(dut)
    word = env.rng.getrandbits
    for _ in range(NUM_TABLES):
        row = [word(32) | ILLEGAL_ROW, word(32)]
        flow = [*(word(32) for _ in range(4)), word(32) | ILLEGAL_FLOW]
        stored = entry_writes(row, flow)
        for num_rows, num_flows, code in (
            (1, word(3), FaultCode.ROW_ILLEGAL),
            (0, 1, FaultCode.FLOW_ILLEGAL),
            (word(32) | 1 << 31, 1, FaultCode.ROW_ILLEGAL),
            (0, word(32) | 1 << 31, FaultCode.FLOW_ILLEGAL),
        ):
            sizes = {"NUM_ROWS": num_rows, "NUM_FLOWS": num_flows, "TABLE_CRC": word(32)}
            writes = [(ADDRESS[name], value) for name, value in sizes.items()]
            assert await refused(env, stored + writes) == code


@cocotb.test()
async def an_empty_table_does_not_start_with_any_settings(dut):
    env = await begin(dut)
    wrong = {"MODE": 1 << 31, "WINDOW_BASE": 1 << 31, "WINDOW_FLITS": 1 << CONFIG.address_width}
    of_a_table = {"NUM_ROWS": 0, "NUM_FLOWS": 0, "TABLE_CRC": 0, "ITERATIONS": 0}
    for _, (name, bit) in itertools.product(range(NUM_TABLES), wrong.items()):
        drawn = {name: env.rng.getrandbits(32) for name in writable() if name != "RESET_SEQUENCE"}
        # One of the settings alone cannot be.
        drawn |= of_a_table | dict.fromkeys(wrong, 0) | {name: drawn[name] | bit}
        writes = [(ADDRESS[name], value) for name, value in drawn.items()]
        # Nobody reads an entry that is not in use.
        writes += entry_writes(
            [env.rng.getrandbits(32) for _ in range(TABLE_WINDOW.words)],
            [env.rng.getrandbits(32) for _ in range(FLOW_WINDOW.words)],
        )
        await env.host.write_all((*writes, COMMIT, START))
        await cleared(env.host, "busy")
        assert (await env.host.fault()).code == FaultCode.SETTINGS_ILLEGAL
        await env.reset(env.rng.getrandbits(32))


def set_to_last(dut):
    """Set all counts of a collective to the last number that they hold."""
    for port in range(CONFIG.num_ports):
        counters = getattr(dut.core, f"counters_{port}")
        for number, name in enumerate(PORT_COUNTERS):
            if name not in NO_COUNTS:
                getattr(counters, f"counts__{number}").value = LAST_COUNT
    # Amaranth numbers a block whose name a signal has, too.
    control = next(block for block in dut.core if "control$" in block._name)
    control.cycles.value = LAST_COUNT


@cocotb.test()
async def the_counts_of_a_collective_go_round(dut):
    env = await begin(dut)
    for number in range(NUM_ROUNDS):
        env.choose_stalls(STALLS[2:3])
        plan = draw_plan(CONFIG, env.data_rng, num_flows=4, window_flits=100)
        now = Round(number, draw_settings(env, plan), plan=plan)
        now.play(env.model, env.data_rng)
        env.rounds.append(now)
        await load_and_start(env, now, None)
        await cleared(env.host, "locked")
        await ClockCycles(dut.clk, 5)
        set_to_last(dut)
        await env.until(lambda: dut.irq.value == 1)
        await check_counts(env)
        await env.host.acknowledge()
        env.num_done += 1


async def check_counts(env):
    """Each count has gone on from its last number, or is still there; the table is the one run."""
    addresses = count_addresses(env.ports)
    names = itertools.cycle(PORT_COUNTERS)
    addresses = [address for address in addresses if next(names) not in NO_COUNTS]
    counts = [await env.host.read(address) for address in addresses]
    gone_on = [count for count in counts if count != LAST_COUNT]
    assert gone_on and max(gone_on) < 1 << 16, counts
    assert await env.host.read("CYCLES") < 1 << 16
    assert await env.host.read("ACTIVE_CRC") == await env.host.read("TABLE_CRC")
