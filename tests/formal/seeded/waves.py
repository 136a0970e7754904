"""Faults seeded where tables are repeated."""

from tests.formal.mutants import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "duplicate_filter.waves",
        "nic/receive/duplicate_filter.py",
        "self.wave <= last",
        "self.wave == last",
        "an earlier wave may come again",
    ),
    Mutant(
        "duplicate_filter.waves",
        "nic/receive/duplicate_filter.py",
        "Mux(came, last + 1, 0)",
        "Mux(came, last + 2, 0)",
        "a wave may be left out",
    ),
    Mutant(
        "issuer.waves",
        "nic/send/issuer.py",
        "return Cat(part, job.wave)",
        "return Cat(part)",
        "as much of any wave is enough",
    ),
    Mutant(
        "sender.waves",
        "nic/send/sender.py",
        "head.wave.eq(message.wave)",
        "head.wave.eq(self.descriptors.payload.wave)",
        "a packet behind the first names the next message's wave",
    ),
    Mutant(
        "control.waves",
        "nic/control/collective.py",
        "(self.iterations >> self._wave_width) != 0",
        "(self.iterations[:16] >> self._wave_width) != 0",
        "waves that have no number are started",
    ),
    Mutant(
        "control.waves",
        "nic/control/collective.py",
        "self.last_run.eq(self.iterations + last_stage)",
        "self.last_run.eq(self.iterations + self.last_stage)",
        "the stages are those of a table that waits",
    ),
    Mutant(
        "checker.waves",
        "nic/control/checker.py",
        "(self.row.stage > self.last_stage)",
        "(self.row.stage != self.last_stage)",
        "the last row's stage is reported, not the highest",
    ),
    Mutant(
        "checker.waves",
        "nic/control/checker.py",
        "(row.stage >> self.config.wave_width) != 0",
        "(row.stage >> self.config.run_width) != 0",
        "a stage without a number passes",
    ),
    Mutant(
        "fetcher.waves",
        "nic/send/fetcher.py",
        "return wave > self.run.last_wave",
        "return wave[:-1] > self.run.last_wave",
        "a row goes ahead of its first wave",
    ),
    Mutant(
        "fetcher.waves",
        "nic/send/fetcher.py",
        "with m.If(hand.run != self.run.last_run):",
        "with m.If(hand.run != self.run.last_wave):",
        "the runs of the last stages are left out",
    ),
    Mutant(
        "fetcher.waves",
        "nic/send/fetcher.py",
        "with m.If(offset.beyond & ~hand.code.any()):",
        "with m.If(0):",
        "a place beyond all addresses wraps around",
    ),
    Mutant(
        "header_check.waves",
        "nic/receive/header_check.py",
        "next_count.eq(first)",
        "next_count.eq(1)",
        "a count does not say of which wave it is",
    ),
    Mutant(
        "header_check.waves",
        "nic/receive/duplicate_filter.py",
        "~expectation.expected | duplicates.early",
        "~expectation.expected",
        "a wave comes in before the one before it",
    ),
    Mutant(
        "header_check.waves",
        "nic/receive/header_check.py",
        "(head.wave > run.last_wave)",
        "(head.wave[: len(run.last_wave)] > run.last_wave)",
        "a wave that has no number is taken for one that has",
    ),
    Mutant(
        "header_check.waves",
        "nic/receive/header_check.py",
        "with m.If(offset.beyond):",
        "with m.If(0):",
        "what comes in beyond all addresses wraps around",
    ),
)
