"""Command lines of every command, and how tests run them."""

import json
import re
import shlex

from multitree.host.cli.main import main
from tests.repository import ROOT

COMMANDS = {
    "topology": "torus:4x4",
    "schedule": "torus:4x4",
    "verify": "mesh:5x3",
    "table": "torus:4x4 --rank 5",
    "verilog": "fat_tree:2x2",
    "cocotb": "ring:2 --sim icarus --dtypes int32 --only after_a_reset",
    "simulate": "mesh:4x4 --engine analytic",
    "compare": "mesh:3x3 --engine analytic",
    "figure": "strong-scaling --networks torus:3x3 --jobs 1",
    "sweep": f"{ROOT}/examples/sweep.yaml --out results --jobs 1",
    "explain": "torus:4x4 --size 4KiB",
    "job": "ncf torus:2x2",
    "view": "torus:4x4 --size 4KiB --out page.html",
    "doctor": "",
}
TIMED = dict.fromkeys(("topology", "verify", "table", "explain"), "ring:4")
TIMED |= dict.fromkeys(("simulate", "compare"), "ring:4 --engine analytic")
"""Commands for which time, or what interfaces are made of, means something."""
GRAPH = """<graphml><key id="c" for="edge" attr.name="capacity"/>
<key id="k" for="edge" attr.name="colour"/>
<graph edgedefault="undirected"><node id="left"/><node id="right"/><node id="top"/>
<edge source="left" target="right"><data key="c">400</data></edge>
<edge source="right" target="top"><data key="c">100</data><data key="k">red</data></edge>
<edge source="top" target="left"><data key="c">100</data></edge></graph></graphml>"""

WORKLOAD = """HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 all_gpus: 64
2
mlp -1 500 ALLREDUCE 4096 400 NONE 0 300 REDUCESCATTER 8192 100
moe -1 500 ALLTOALL 4096 400 NONE 0 300 NONE 0 100
"""


class Commands:
    """Runs command lines in this process, words behind them as they are."""

    def __init__(self, capsys):
        self._capsys = capsys

    def __call__(self, line, *words):
        """Status, standard output and standard error."""
        status = main([*shlex.split(line), *map(str, words)])
        return status, *self._capsys.readouterr()

    def printed(self, line, *words, status=0):
        """What is printed on standard output."""
        found, out, _ = self(line, *words)
        assert found == status
        return out

    def json(self, line, *words, status=0):
        """The object that is printed for programs."""
        return json.loads(self.printed(line, *words, "--json", status=status))

    def refused(self, line, *words):
        """The one sentence of a command that does nothing else, with status 2."""
        status, out, error = self(line, *words)
        assert (status, out) == (2, "")
        assert re.fullmatch(r"multitree: [^\n]+\n", error)
        return error.removeprefix("multitree: ").rstrip()
