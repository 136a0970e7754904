"""Register writes of one rank's table as text: for scripts, for Verilog and for C."""

from dataclasses import dataclass

from multitree.nic.driver.registers import REGISTERS, Writes

__all__ = ["FORMATS", "WriteList"]

_ORDER = "Register writes, in this order: byte address and value, 32 bits."
_THEN = (
    "Then wait until STATUS.busy is 0 and STATUS.committed 1, and until LINKS has {:#x}; "
    "then write 2 to CONTROL."
)


@dataclass(frozen=True)
class WriteList:
    """What a bus master writes to one interface, and how it is written down."""

    name: str  # of the array in C
    rank: int
    about: tuple[str, ...]  # lines that say what it is of
    ports: int  # that the table uses, bit by bit
    writes: Writes  # the commit last

    def text(self, form: str) -> str:
        """All writes in one of `FORMATS`."""
        return FORMATS[form](self)

    def _head(self) -> list[str]:
        lines = [_ORDER, *self.about, _THEN.format(self.ports)]
        # Names of files are untrusted, and none must end a comment.
        return ["".join(c if c.isprintable() else "?" for c in line) for line in lines]

    def _words(self) -> str:
        lines = [f"# {line}" for line in self._head()]
        lines += [f"0x{address:05x} 0x{value:08x}" for address, value in self.writes]
        return "\n".join([*lines, ""])

    def _readmemh(self) -> str:
        lines = [f"// {line}" for line in self._head()]
        lines.append(f"// For $readmemh: {len(self.writes)} words of 64 bits, address_value.")
        lines += [
            f"{address:08x}_{value:08x} // {_place_name(address)}" for address, value in self.writes
        ]
        return "\n".join([*lines, ""])

    def _c(self) -> str:
        name = f"{self.name}_writes_{self.rank}"
        guard, count = f"{name.upper()}_H", f"{self.name.upper()}_NUM_WRITES_{self.rank}"
        head = [line.replace("*/", "* /").replace("/*", "/ *") for line in self._head()]
        entries = [
            f"    {{0x{address:05x}u, 0x{value:08x}u}}, /* {_place_name(address)} */"
            for address, value in self.writes
        ]
        return "\n".join(
            [
                "/* SPDX-License-Identifier: Apache-2.0 */",
                *(f"/* {line} */" for line in head),
                f"#ifndef {guard}",
                f"#define {guard}",
                "",
                "#include <stdint.h>",
                "",
                f"#define {count} {len(self.writes)}u",
                f"static const uint32_t {name}[{count}][2] = {{",
                *entries,
                "};",
                "",
                f"#endif /* {guard} */",
                "",
            ]
        )


FORMATS = {"words": WriteList._words, "readmemh": WriteList._readmemh, "c": WriteList._c}
"""Lines of two numbers; an image of 64-bit words for Verilog; an array in C."""


def _place_name(address: int) -> str:
    """What a byte address is by the register map, such as ``TABLE[3] word 1``."""
    for register in REGISTERS.registers:
        if register.address == address:
            return register.name
    (window,) = (window for window in REGISTERS.windows if window.base <= address < window.end)
    entry, offset = divmod(address - window.base, window.stride)
    return f"{window.name}[{entry}] word {offset // 4}"
