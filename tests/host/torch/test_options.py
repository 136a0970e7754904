"""Options come from the call or the environment; misfits are refused."""

import gc
import json
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree import ring, save_topology, torus  # noqa: E402
from multitree.host.torch import creation, register  # noqa: E402
from multitree.host.torch import options as module  # noqa: E402
from multitree.host.torch.layouts import planner_of  # noqa: E402
from multitree.host.torch.options import Options, options_of  # noqa: E402
from multitree.host.torch.staging import Staged  # noqa: E402
from tests.host.torch.ranks import run_ranks  # noqa: E402
from tests.programs import python  # noqa: E402
from tests.refusals import refuses  # noqa: E402


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in ("TOPOLOGY", "ALGORITHM", "ENGINE", "TRANSPORT", "REPRODUCIBLE", "LOG"):
        monkeypatch.delenv(f"MULTITREE_{name}", raising=False)


def chosen(given=None, num_ranks=4, *, is_default_group=True):
    return options_of(given, num_ranks, is_default_group=is_default_group)


def test_without_a_choice_a_group_is_fully_connected_multitree_on_torch():
    options = chosen()
    assert options.topology.name == "full:4"
    assert (options.algorithm, options.engine, options.transport) == ("multitree", "torch", "auto")
    assert options.reproducible == "schedule" and options.log is None


def test_groups_share_topologies_and_schedules_but_not_those_of_files(tmp_path):
    shared = Options(topology="torus:2x2")
    assert chosen().topology is chosen().topology
    assert chosen(shared).topology is chosen(shared).topology
    assert planner_of(chosen().topology, "ring") is planner_of(chosen().topology, "ring")
    path = str(tmp_path / "network.json")
    for network in (ring(4), chosen().topology):
        save_topology(network, path)
        assert chosen(Options(topology=path)).topology.num_links == network.num_links


def test_the_environment_fills_what_the_call_leaves_open(monkeypatch):
    for name, value in {"TOPOLOGY": "torus:2x2", "ENGINE": "rtl", "ALGORITHM": "ring"}.items():
        monkeypatch.setenv(f"MULTITREE_{name}", value)
    options = chosen(Options(algorithm="swing"))
    assert options.topology.name == "torus:2x2"
    assert (options.engine, options.algorithm) == ("rtl", "swing")
    assert chosen(Options(topology=torus(4))).topology.name == torus(4).name


def test_a_misspelt_variable_of_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("MULTITREE_TOPOLGY", "ring:4")
    says = r"MULTITREE_TOPOLGY must be .* Did you mean 'TOPOLOGY'\?"
    refuses(ValueError, says, options_of, None, 4, is_default_group=True)


def test_a_topology_of_the_environment_is_for_groups_of_its_size(monkeypatch):
    monkeypatch.setenv("MULTITREE_TOPOLOGY", "torus:2x2")
    assert chosen(num_ranks=3, is_default_group=False).topology.name == "full:3"
    assert chosen(num_ranks=4, is_default_group=False).topology.name == "torus:2x2"
    refuses(ValueError, r"the group, 3, but torus:2x2 has 4", chosen, num_ranks=3)
    with pytest.raises(ValueError, match=r"the group, 3, but ring:4 has 4"):
        chosen(Options(topology="ring:4"), num_ranks=3, is_default_group=False)
    assert chosen(num_ranks=1, is_default_group=False).topology is None


@pytest.mark.parametrize("name", ["engine", "transport", "reproducible"])
def test_an_unknown_choice_is_refused_wherever_it_comes_from(name, monkeypatch):
    monkeypatch.setenv(f"MULTITREE_{name.upper()}", "x")
    for call in (lambda: Options(**{name: "x"}), chosen):
        refuses(ValueError, f"{name.capitalize()} must be one of .*, not 'x'", call)


def test_a_log_that_no_rank_could_write_is_refused_before_it_is_written(monkeypatch):
    refuses(ValueError, "Folder of log '/no/x' must be one that can", chosen, Options(log="/no/x"))
    monkeypatch.setattr(os, "access", lambda *given: False)
    refuses(ValueError, "Folder of log 'x' must be one that can", chosen, Options(log="x"))
    # A job without a log writes nothing where it runs; folders of ranks have names only there.
    for log in (None, "/no/{rank}/x"):
        assert chosen(Options(log=log)).log == log


START = """
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
def start():
    dist.init_process_group("multitree")
"""
STARTS = {"plain": f"{START}start()", "recorded": f"{START}record(start)()"}
MISFIT = "Topology must have as many ranks as the group, 2, but torus:3x3 has 9"


@pytest.mark.slow
@pytest.mark.dear
@pytest.mark.parametrize("script", STARTS)
def test_a_job_that_cannot_start_says_why_once_and_torchrun_does_last(script, tmp_path):
    (tmp_path / "start.py").write_text(STARTS[script])
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "start.py"]
    options = {"MULTITREE_TOPOLOGY": "torus:3x3", "TORCH_DISTRIBUTED_DEBUG": "OFF"}
    said = python(*words, folder=tmp_path, status=1, **options).stderr
    ours, _, agents = said.partition("Traceback")  # of torchrun itself
    assert ours.count(MISFIT) == ours.count(f"multitree: {MISFIT}\n") == 1
    assert f"  traceback : ValueError: {MISFIT}\n" in agents.partition("Root Cause")[2]


def failed(store, rank, num_ranks, error):
    """Have an error of a group's set-up end the program."""
    try:
        with module.refusing(store, rank, num_ranks):
            raise error
    except Exception as raised:
        assert raised is error
        sys.excepthook(type(error), error, error.__traceback__)


@pytest.fixture
def shown(monkeypatch):
    """What the hook that was there before has shown."""
    found = []
    monkeypatch.setattr(sys, "__excepthook__", lambda kind, error, trace: found.append(error))
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(module, "_before", None)
    monkeypatch.setattr(module, "_WAIT_S", 0.1)
    for name in ("TORCH_DISTRIBUTED_DEBUG", "TORCHELASTIC_ERROR_FILE"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.mark.every_set
@pytest.mark.parametrize(
    ("of_first", "of_second", "lines"),
    [
        (None, "b", ["b"]),  # the first rank goes on, or is late
        ("a", "a", ["a"]),
        ("a", "b", ["a", "b"]),
        ("a\n  b", "a\n  b", ["a b"]),
    ],
)
def test_a_rank_is_quiet_only_where_the_first_one_has_said_the_same(
    of_first, of_second, lines, shown, capsys
):
    store = dist.HashStore()
    for rank, text in enumerate((of_first, of_second)):
        if text is not None:
            failed(store, rank, 2, ValueError(text))
    assert capsys.readouterr().err.splitlines() == [f"multitree: {line}" for line in lines]
    assert shown == []


def test_the_error_file_of_torchrun_has_the_message_in_the_place_of_a_call_stack(
    shown, tmp_path, monkeypatch
):
    path = tmp_path / "error.json"
    path.write_text("a traceback, by @record")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    failed(dist.HashStore(), 0, 1, TimeoutError("late"))
    found = json.loads(path.read_text())["message"]
    assert found["message"] == "TimeoutError: late" and [*found["extraInfo"]] == ["timestamp"]


@pytest.mark.parametrize("why", ["of the program", "debugged", "own hook"])
def test_all_other_errors_and_hooks_are_as_before(why, shown, monkeypatch, capsys):
    error = TypeError("wrong") if why == "of the program" else ValueError("wrong")
    if why == "debugged":
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    if why == "own hook":
        monkeypatch.setattr(sys, "excepthook", lambda *given: shown.append(given[1]))
    failed(dist.HashStore(), 0, 1, error)
    assert shown == [error] and capsys.readouterr().err == ""
    other = ValueError("later")
    sys.excepthook(ValueError, other, None)
    assert shown == [error, other]


def without_tools(rank, num_ranks, path):
    """What both ranks are refused with if the one that would run the engine cannot."""
    os.environ |= {"MULTITREE_ENGINE": "rtl"} | ({} if rank else {"PATH": "/nowhere"})
    try:
        mixed(rank, num_ranks, "multitree", path)
    except ValueError as error:
        return str(error)


def test_an_engine_that_the_first_rank_cannot_run_is_refused_at_all_ranks(tmp_path):
    first, second = run_ranks(without_tools, 2, str(tmp_path / "store"), backend=None)
    assert first == second and first.startswith("Engine 'rtl' cannot run here: there is no C++")


@pytest.mark.parametrize("engine", ["numpy", "rtl"])
def test_nccl_needs_each_rank_its_own_engine(engine):
    with pytest.raises(ValueError, match=f"nccl must have engine torch, not {engine}"):
        chosen(Options(transport="nccl", engine=engine))


def test_nccl_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("MULTITREE_TRANSPORT", "nccl")
    refuses(ValueError, "nccl must have a PyTorch with NCCL and a GPU", chosen)


def test_tensors_stay_on_a_device_that_has_a_transport_and_else_are_copied():
    there = torch.empty(2, 3, device="meta")
    stays = Staged(("cpu", "meta"))
    assert stays.read(there).device == stays.write(there).device == there.device
    assert stays.write(there.t()).shape == (6,)
    refuses(NotImplementedError, "meta", Staged().read, there)


def test_options_of_another_backend_are_refused():
    refuses(TypeError, r"must be multitree.torch.Options, not dict", chosen, {})


INIT = (
    "import torch.distributed as d\n"
    "d.init_process_group('multitree', store=d.HashStore(), rank=0, world_size=1)\n"
    "print(d.get_backend(), type(d.group.WORLD).__name__)\n"
)


def test_the_backend_is_there_once_torch_is_imported_and_loads_nothing_before_it_is_used():
    code = "import sys, torch\nprint('numpy' in sys.modules, 'multitree.host.torch.creation' "
    code += "in sys.modules)\n"
    ran = python("-c", code + INIT)
    assert ran.stdout.split()[1:] == ["False", "multitree", "MultiTreeProcessGroup"]


def test_the_first_group_loads_nothing_that_is_slow_to_load():
    code = "import sys, torch\nbefore = set(sys.modules)\n" + INIT
    code += "slow = {'networkx', 'xml', 'amaranth', 'rich', 'typer', 'yaml'}\n"
    code += "print(slow & {name.split('.')[0] for name in set(sys.modules) - before})"
    ran = python("-c", code)
    assert ran.stdout.splitlines()[1:] == ["set()"], ran.stdout + ran.stderr


def test_without_autoload_it_is_there_after_an_import():
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    ran = python("-c", "import multitree.torch\nmultitree.torch.register()\n" + INIT, **off)
    assert "MultiTreeProcessGroup" in ran.stdout, ran.stderr


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_first_group_imports_without_collections_of_garbage(is_enabled, monkeypatch):
    seen = []

    class Creation(ModuleType):
        def __getattr__(self, name):
            if name != "create_group":
                raise AttributeError(name)
            seen.append(gc.isenabled())
            return lambda *arguments: seen.append(gc.isenabled())

    monkeypatch.setitem(sys.modules, creation.__name__, Creation(creation.__name__))
    (gc.enable if is_enabled else gc.disable)()
    try:
        register._create(None, None)
    finally:
        gc.enable()
    assert seen == [False, is_enabled]


def test_a_failure_to_register_does_not_make_the_import_of_torch_fail():
    code = "import sys\nsys.modules['torch.distributed'] = None\n"
    code += "from multitree.host.torch.register import register\nregister()\nprint('goes on')"
    ran = python("-c", code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ran.stdout == "goes on\n" and "was not registered" in ran.stderr


def mixed(rank, num_ranks, backend, path):
    dist.init_process_group(backend, rank=rank, world_size=num_ranks, init_method=f"file://{path}")


def refused_for_others(rank, num_ranks, backend, path):
    mixed(rank, num_ranks, backend, path)
    sentences = []
    for use in (dist.barrier, lambda: dist.all_gather_object([None] * 2, rank)):
        with pytest.raises(ValueError, match="Backend must be multitree for all devices") as error:
            use()
        sentences.append(str(error.value))
    dist.destroy_process_group()
    return sentences


@pytest.mark.parametrize("backend", ["cpu:gloo,cuda:multitree", "cpu:multitree,cuda:nccl"])
def test_a_backend_for_some_devices_is_refused_rather_than_used_for_all(backend, tmp_path):
    path = str(tmp_path / "store")
    for sentences in run_ranks(refused_for_others, 2, backend, path, backend=None):
        assert all(f"not {backend!r}" in sentence for sentence in sentences)


def whole_group(default, *others):
    """What a creator is given of a group since PyTorch 2.15."""
    store = dist.HashStore()
    group = dist.ProcessGroup(store, 0, 1)
    kinds = dist.ProcessGroup.BackendType
    group._set_default_backend(getattr(kinds, default))
    for device in others:
        gloo = dist.ProcessGroupGloo(dist.PrefixStore(device, store), 0, 1)
        group._register_backend(torch.device(device), kinds.GLOO, gloo)
    return SimpleNamespace(process_group=group)


@pytest.mark.parametrize(
    ("given", "others"),
    [
        (SimpleNamespace(), False),
        (whole_group("CUSTOM"), False),  # multitree
        (whole_group("CUSTOM", "cpu"), True),  # cpu:gloo,cuda:multitree
        (whole_group("GLOO"), True),  # cpu:multitree,cuda:gloo
    ],
)
def test_a_creator_sees_whether_other_devices_have_other_backends(given, others):
    assert creation._has_other_backends(given) is others


def one_device(rank, num_ranks, path):
    mixed(rank, num_ranks, "cpu:multitree", path)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    return tensor.tolist()


def test_a_backend_for_one_device_serves_it(tmp_path):
    assert run_ranks(one_device, 2, str(tmp_path / "store"), backend=None) == [[2, 2], [2, 2]]


def alone(path):
    """A group of this process alone."""
    dist.init_process_group("multitree", rank=0, world_size=1, init_method=f"file://{path}")
    return dist.group.WORLD


def test_a_group_says_what_it_supports(tmp_path):
    group = alone(tmp_path / "store")
    try:
        assert {device.type for device in group._device_types} == {"cpu", "cuda"}
        backend = group._get_backend(torch.device("cuda"))
        asked = ["splitting", "coalescing", "time_estimate", "shrinking", "reconfigure", "window"]
        assert not any(getattr(backend, f"supports_{what}") for what in asked)
        assert not backend.supports_tensor_alloc(torch.device("cpu"))
        tensor = torch.ones(1)
        with dist._coalescing_manager(async_ops=True) as begun:
            dist.all_reduce(tensor)
        begun.wait()
        with pytest.raises(RuntimeError, match="without a device in a coalescing manager"):
            dist._coalescing_manager(device=torch.device("cpu")).__enter__()
    finally:
        dist.destroy_process_group()
