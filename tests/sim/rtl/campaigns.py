"""What campaigns of exact runs report alike."""

import re
from dataclasses import replace

from multitree.nic.driver.faults import DeviceError
from multitree.sim.rtl.session import RtlSession
from tests.benches import bench_module


def reports_what_is_wrong_and_what_is_stuck(campaign, monkeypatch, seed, wrong_text, good, **zeros):
    """A wrong result and a run that does not end, each told from `good`, a run that is exact."""
    with monkeypatch.context() as patch:
        patch.setattr(bench_module("_draws"), "execute", lambda schedule, buffer, op: buffer + 1)
        wrong = campaign.run_once(seed)
    assert re.fullmatch(wrong_text, wrong.text)

    def stuck(*arguments, **options):
        raise DeviceError("Rank 1: not over")

    monkeypatch.setattr(RtlSession, "run_each", stuck)
    reported = campaign.run_once(seed)
    text = "stuck: Rank 1: not over"
    assert reported == replace(reported, exact=False, text=text, cycles=0, **zeros)
    row = campaign.CAMPAIGN.table_of([wrong, reported, good])[-1]
    assert (row["exact"], row["wrong"], row["stuck"]) == (1, 1, 1)
