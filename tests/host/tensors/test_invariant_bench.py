"""The measurement of invariant sums, small, and that it notices a wrong bit."""

import json

import numpy as np
import pytest

from tests.benches import bench_module, ran

pytest.importorskip("torch", reason="PyTorch is not installed, so its sums are not measured")


@pytest.fixture
def bench(monkeypatch):
    """Two networks, one without a link, and no cost, which tests need not wait for."""
    module = bench_module("invariant")
    monkeypatch.setattr(module, "NETWORKS", ("mesh:4x4",))
    monkeypatch.setattr(module, "WITHOUT_LINKS", ("torus:4x4",))
    monkeypatch.setattr(module, "ALGORITHMS", ("multitree", "ring_2d", "forest"))
    monkeypatch.setattr(module, "PADDINGS", ((0, 0), (3, 61)))
    monkeypatch.setattr(module, "cost_in_rtl", lambda size_bytes: {"size_bytes": size_bytes})
    monkeypatch.setattr(module, "cost_on_host", lambda dtype: {"dtype": str(dtype)})
    return module


def printed(bench, monkeypatch, capsys):
    status, out = ran(bench, monkeypatch, capsys, "--size", "4KiB", "--json")
    return status, json.loads(out)


@pytest.mark.slow
def test_only_the_default_has_bits_that_differ(bench, monkeypatch, capsys):
    status, figures = printed(bench, monkeypatch, capsys)
    assert status == 0
    assert figures["invariant_differing_bits"] == figures["invariant_variants_that_differ"] == 0
    # There is no ring in two dimensions where a link is gone.
    assert (figures["variants"], figures["algorithms"]) == (10, 3)
    assert figures["variants_without_a_link"] == 4 and figures["variants_with_waves"] > 0
    assert figures["default_variants_that_differ"] == 9
    assert figures["default_differing_bits"] > 0
    assert figures["rtl"] == {"size_bytes": 4096}


@pytest.mark.long
def test_one_wrong_bit_on_one_rank_is_an_error(bench, monkeypatch, capsys):
    sums = bench.sums

    def wrong(variant, buffers, reproducible):
        image, waves = sums(variant, buffers, reproducible)
        if variant.topology.name != "mesh:4x4" and reproducible == "invariant":
            image.view(np.uint32)[5, 17] ^= 1
        return image, waves

    monkeypatch.setattr(bench, "sums", wrong)
    status, figures = printed(bench, monkeypatch, capsys)
    assert status == 1
    assert figures["invariant_differing_bits"] == figures["invariant_variants_that_differ"] == 4
