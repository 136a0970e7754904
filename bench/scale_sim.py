"""Closed form of a product's cycles against SCALE-Sim 3, product by product.

All distinct products of the networks' layers, forward and both gradients, that have at most so many
multiplications. SCALE-Sim is no dependency of this project: install it where numpy is below 2.4,
``pip install scalesim==3.0.0 "numpy<2.4"``. Exit status 1 where a product differs:
``python bench/scale_sim.py [--networks alphagozero] [--most 3000000] [--json]``.
"""

import contextlib
import importlib.util
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from _bench import Row, ended, listed, options, refuse, reported

from multitree import SystolicArrays
from multitree.sim.jobs.models import EVALUATED, model_layers

CONFIG = """
[general]
run_name = product
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = 512
FilterSramSzkB = 512
OfmapSramSzkB = 256
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = os
Bandwidth = 10
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
"""
Product = tuple[int, int, int]


def products_of(network: str) -> dict[Product, str]:
    """Distinct products of a network, each with the first layer and pass that has it."""
    found: dict[Product, str] = {}
    for layer in model_layers(network):
        window, pixels = layer.weights_per_filter, layer.output_pixels
        passes = {
            "forward": (pixels, layer.filters, window),
            "input gradient": (layer.input_pixels, layer.channels, layer.window * layer.filters),
            "weight gradient": (window, layer.filters, pixels),
        }
        for name, product in passes.items():
            found.setdefault(product, f"{network} {layer.name}, {name}")
    return found


def simulated_cycles(product: Product, arrays: SystolicArrays) -> int:
    from scalesim.scale_sim import scalesim

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "config.cfg").write_text(CONFIG.format(rows=arrays.rows, columns=arrays.columns))
        (place / "product.csv").write_text(
            "Layer, M, N, K,\n" + ", ".join(["one", *map(str, product)]) + ",\n"
        )
        # SCALE-Sim asks for a layout of memory, which it does not use here.
        (place / "layout.csv").write_text("Layer name,\n" + ",".join(["one"] + ["1"] * 25) + ",\n")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            simulator = scalesim(
                save_disk_space=True,
                verbose=False,
                config=str(place / "config.cfg"),
                topology=str(place / "product.csv"),
                layout=str(place / "layout.csv"),
                input_type_gemm=True,
            )
            simulator.run_scale(top_path=str(place))
        (layer,) = simulator.runner.single_layer_sim_object_list
        return int(layer.total_cycles)


def main() -> int:
    given = options(
        __doc__,
        networks=listed(",".join(EVALUATED)),
        most={"type": int, "default": 3_000_000, "help": "multiplications of a product"},
    )
    if importlib.util.find_spec("scalesim") is None:
        refuse('scalesim must be installed: pip install scalesim==3.0.0 "numpy<2.4"')
    arrays, found = SystolicArrays(), dict[Product, str]()
    for network in given.networks:
        found = products_of(network) | found

    def measured() -> Iterator[Row]:
        for (m, n, k), name in found.items():
            if m * n * k <= given.most:
                cycles = {"closed_form_cycles": arrays.product_cycles(m, n, k)}
                cycles["scale_sim_cycles"] = simulated_cycles((m, n, k), arrays)
                yield {"product": name, "m": m, "n": n, "k": k} | cycles

    columns = ("product", "m", "n", "k", "closed_form_cycles", "scale_sim_cycles")
    rows = reported(given, measured(), *columns)
    differing = sum(row["closed_form_cycles"] != row["scale_sim_cycles"] for row in rows)
    data = {"products": len(rows), "too_large": len(found) - len(rows), "differing": differing}
    said = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in data.items())
    return ended(given, not differing, data | {"rows": rows}, said)


if __name__ == "__main__":
    sys.exit(main())
