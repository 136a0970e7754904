"""C++ names of what the harness reads or writes in a Verilated model."""

import re

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


def members_header(model: str, top: str) -> str:
    """Names members of a Verilated model: counters, and the memories of the tables.

    Parameters
    ----------
    model : str
        Header of the model's root class.
    top : str
        Name of the top module.

    Returns
    -------
    str
        A header with macros over C++ names. MT_WATCHDOG lists the watchdog's 32-bit words, and
        MT_COUNTERS these first, then the cycles and the activity of ports, with what is computed
        from them: none of these but the watchdog's decides anything, the host reads them. Of an
        interface, MT_TABLE_BANKS and MT_FLOW_BANKS list memories up to the number of their bank,
        MT_BANK is the active one, and MT_LOCKED says that tables cannot be written.
    """
    words = _WORD.findall(model)
    watchdog, others = (
        [word for word in words if any(re.fullmatch(each.format(top=top), word) for each in names)]
        for names in ((_WATCHDOG,), _COUNTERS)
    )
    lists = {"MT_WATCHDOG": watchdog, "MT_COUNTERS": [*watchdog, *others]}
    lines = []
    banks = re.findall(_BANK.format(top=top), model, re.M)
    signals = [re.findall(each.format(top=top), model, re.M) for each in (_ACTIVE, _LOCKED)]
    if banks and all(signals):
        lists["MT_TABLE_BANKS"] = [name for name, memory in banks if memory == "table"]
        lists["MT_FLOW_BANKS"] = [name for name, memory in banks if memory != "table"]
        lines = [f"#define MT_BANK {signals[0][0]}\n", f"#define MT_LOCKED {signals[1][0]}\n"]
    lines += [
        f"#define {macro}(X) {' '.join(f'X({word})' for word in listed)}\n"
        for macro, listed in lists.items()
    ]
    return "".join(["#pragma once\n", *lines])
