"""A bus to registers without an interface behind them."""

from multitree.nic.driver.registers import ADDRESS, REGISTERS

__all__ = ["MASK", "FakeBus"]

_STATUS = next(register for register in REGISTERS.registers if register.name == "STATUS")
MASK = {field.name: field.mask for field in _STATUS.fields}
"""Bits of STATUS by their names."""


class FakeBus:
    """Registers that answer with fixed words, the last of a list again and again."""

    def __init__(self, **words):
        listed = {name: word if isinstance(word, list) else [word] for name, word in words.items()}
        self.words = {ADDRESS[name]: words for name, words in listed.items()}
        self.written, self.pauses = [], 0

    def write(self, address, value):
        self.written.append((address, value))

    def read(self, address):
        words = self.words.get(address, [0])
        return words.pop(0) if len(words) > 1 else words[0]

    def wait_interrupt(self, timeout_cycles):
        self.pauses += 1
        return False
