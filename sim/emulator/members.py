"""C++ names of what the harness reads or writes in a Verilated model."""

import re
from collections.abc import Iterator, Mapping

__all__ = ["members_header"]

_WORD = re.compile(r"^ *IData/\*31:0\*/ (\w+);$", re.M)
_WATCHDOG = r"{top}__DOT__core__DOT__watchdog\w*__DOT__\w+"
_COUNTERS = (
    r"{top}__DOT__core__DOT__(counts___05F\d+(__024\d+)?|counters_\d+\w*__DOT__\w+)",
    # The cycles since the start: a register of the control, and where its status is read.
    r"{top}__DOT__core__DOT__control\w*__DOT__\w+|{top}__DOT__(core__DOT__)?status___05F\d+(__024\d+)?",
)
_BANK = (
    r"^ *VlUnpacked<VlWide<\d+>/\*\d+:0\*/, \d+> "
    r"({top}__DOT__core__DOT__tables__DOT__(\w+?)__DOT__content__DOT__bank_)0;$"
)
_ACTIVE = r"^ *CData/\*0:0\*/ ({top}__DOT__core__DOT__run___05Fbank);$"
_LOCKED = r"^ *CData/\*0:0\*/ ({top}__DOT__locked(?:__024\d+)?);$"
_OBJECT = re.compile(r"^ *(Vnic\w+) +(TOP\w*);$", re.M)
_MEMORY = re.compile(r"^ *VlUnpacked<.*, (\d+)> (\w+);$", re.M)
# Tables, and what queues hold: `storage` of hw/stream.py, which has as many places.
_SETTLED = re.compile(
    r"\w*__DOT__(tables__DOT__\w*__DOT__bank_\d+|queue__DOT__(\w+__DOT__)?storage)"
)
_LEAST_PLACES = 3


def members_header(model: Mapping[str, str], top: str) -> str:
    """Header of macros over C++ names of a Verilated model, from the headers of its classes.

    MT_WATCHDOG lists the watchdog's words; MT_COUNTERS these, the cycles and the activity of ports:
    only the watchdog's decide anything. MT_SETTLED lists memories that are as before where all else
    is as two cycles before: tables, and queues of three places or more.
    """
    root = model["Vnic___024root"]
    words = _WORD.findall(root)
    watchdog, others = (
        [word for word in words if any(re.fullmatch(each.format(top=top), word) for each in names)]
        for names in ((_WATCHDOG,), _COUNTERS)
    )
    lists = {"MT_WATCHDOG": watchdog, "MT_COUNTERS": [*watchdog, *others]}
    lists["MT_SETTLED"] = list(_settled(model))
    lines = []
    banks = re.findall(_BANK.format(top=top), root, re.M)
    signals = [re.findall(each.format(top=top), root, re.M) for each in (_ACTIVE, _LOCKED)]
    if banks and all(signals):
        lists["MT_TABLE_BANKS"] = [name for name, memory in banks if memory == "table"]
        lists["MT_FLOW_BANKS"] = [name for name, memory in banks if memory != "table"]
        lines = [f"#define MT_BANK {signals[0][0]}\n", f"#define MT_LOCKED {signals[1][0]}\n"]
    lines += [
        f"#define {macro}(X) {' '.join(f'X({word})' for word in listed)}\n"
        for macro, listed in lists.items()
    ]
    return "".join(["#pragma once\n", *lines])


def _settled(model: Mapping[str, str]) -> Iterator[str]:
    """Memories that need no comparison, each behind the name of its object."""
    for name, place in _OBJECT.findall(model["Vnic__Syms"]):
        for depth, member in _MEMORY.findall(model[name]):
            if int(depth) >= _LEAST_PLACES and _SETTLED.fullmatch(member):
                yield f"{place}.{member}"
