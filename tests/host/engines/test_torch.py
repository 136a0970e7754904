"""The torch engine has the bits of execute, on every device there is."""

import numpy as np
import pytest

from multitree import Communicator, Schedule, ScheduleError, build, execute, mesh, ring, torus
from multitree.host.buffers import take_buffers, to_array, to_tensor
from multitree.host.work import average_of
from tests.host.devices import on_every_device, own_stream
from tests.host.tensors.schedules import COLLECTIVES, check_memory, networks
from tests.host.values import bits, make_buffers, with_odd_values
from tests.refusals import refuses

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so its engine is untested")

LENGTHS = (0, 1, 3, 4, 17, 61, 64, 1000, 4099)
ENGINES = pytest.mark.parametrize("engine", ["torch", "numpy"])


@pytest.fixture
def executor():
    from multitree.host.tensors.executor import TorchExecutor

    return TorchExecutor()


@on_every_device
@pytest.mark.parametrize("topology", networks(), ids=lambda topology: topology.name)
@pytest.mark.parametrize(("collective", "root"), COLLECTIVES)
def test_every_memory_equals_execute_bit_for_bit(executor, topology, collective, root, device):
    schedule = build(topology, "multitree", collective, root=root)
    check_memory(executor.execute, schedule, LENGTHS, device)


def test_an_addition_after_a_copy_of_its_flow_is_refused(executor):
    kind = {"algorithm": "wrong", "collective": "all_reduce", "flow_offsets": [0, 1]}
    schedule = Schedule.from_rows(ring(2), **kind, rows=[(0, 1, 0, 0, 1), (1, 0, 0, 1, 0)])
    with pytest.raises(ScheduleError, match="Flow 0: REDUCE in step 1 must be before GATHER"):
        executor.execute(schedule, torch.zeros(2, 8))


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (torch.zeros(4, 8, dtype=torch.float64), TypeError),
        (torch.zeros(3, 8), ValueError),
        (torch.zeros(4, 2, 2), ValueError),
    ],
)
def test_memory_that_does_not_fit_is_refused(executor, tensor, error):
    refuses(error, "Memory must", executor.execute, build(torus(2, 2), "multitree"), tensor)


@on_every_device
@ENGINES
@pytest.mark.parametrize("stacked", [True, False])
def test_tensors_come_back_as_tensors_on_their_device(engine, stacked, device):
    values = make_buffers(5, 15, 77)
    tensors = torch.from_numpy(values).reshape(15, 7, 11).to(device)
    with Communicator(mesh(5, 3), engine=engine, check=True) as comm:
        work = comm.all_reduce(tensors if stacked else list(tensors))
        result = work.wait()
        assert work.report.exact is True
        assert work.report.engine == engine
    assert isinstance(result, torch.Tensor) == stacked
    rows = result if stacked else torch.stack(result)
    assert rows.device == tensors.device
    assert rows.shape == (15, 7, 11)
    expected = execute(build(mesh(5, 3), "multitree"), values)
    assert (bits(rows.cpu().numpy().reshape(15, 77)) == bits(expected)).all()


def calls_on(comm):
    """The five collectives on a tensor of shape (4, 8), or a list of its rows."""
    with_root = [lambda t, call=call: call(t, root=1) for call in (comm.broadcast, comm.reduce)]
    return [comm.all_reduce, comm.reduce_scatter, *with_root, lambda t: comm.all_gather(list(t))]


@ENGINES
def test_a_tensor_that_requires_grad_is_refused_where_gradients_are_recorded(engine):
    tensor = torch.ones(4, 8, requires_grad=True)
    rows = [torch.ones(8), torch.ones(8), torch.ones(8, requires_grad=True), torch.ones(8)]
    with Communicator(torus(2, 2), engine=engine) as comm:
        for call in calls_on(comm):
            for given in (tensor, rows):
                refuses(ValueError, r"must not require grad.*`\.detach\(\)`", call, given)


@pytest.mark.parametrize(
    ("tensor", "says"),
    [
        (torch.ones(4, 8).to_sparse(), "not sparse_coo"),
        (torch.nested.nested_tensor([torch.ones(8)] * 4, layout=torch.jagged), "not nested"),
    ],
)
def test_tensors_that_are_not_dense_are_refused(tensor, says):
    with Communicator(torus(2, 2)) as comm:
        refuses(TypeError, f"must be dense tensors, {says}", comm.all_reduce, tensor)


@ENGINES
def test_without_gradients_a_tensor_that_requires_grad_is_its_values(engine):
    tensor = torch.arange(8.0).reshape(4, 2).requires_grad_()
    with Communicator(torus(2, 2), engine=engine) as comm:
        with torch.no_grad():
            summed = [comm.all_reduce(given).wait() for given in (tensor, list(tensor))]
            pieces = comm.reduce_scatter(tensor).wait()
            gathered = comm.all_gather([piece.requires_grad_() for piece in pieces]).wait()
        detached = comm.all_reduce(tensor.detach()).wait()
    for result in (summed[0], torch.stack(summed[1]), gathered, detached):
        assert result.tolist() == [[12.0, 16.0]] * 4
        assert not result.requires_grad
    assert tensor.tolist() == torch.arange(8.0).reshape(4, 2).tolist()


@on_every_device
@pytest.mark.parametrize("algorithm", ["forest", "auto"])
def test_tensors_without_elements_are_summed(algorithm, device):
    with Communicator(torus(2, 2), algorithm=algorithm, engine="torch", check=True) as comm:
        work = comm.all_reduce(torch.zeros(4, 3, 0, device=device))
        assert work.wait().shape == (4, 3, 0)
        assert work.report.exact is True


@on_every_device
@pytest.mark.parametrize("op", ["sum", "max", "average"])
@ENGINES
def test_bfloat16_tensors_stay_bfloat16_tensors(engine, op, device):
    values = with_odd_values(make_buffers(5, 15, 77, "bfloat16"))
    tensors = to_tensor(values).to(device)
    with Communicator(mesh(5, 3), engine=engine, check=True) as comm:
        work = comm.all_reduce(tensors, op=op)
        result = work.wait()
        assert work.report.exact is True
        pieces = comm.reduce_scatter(list(tensors), op=op).wait()
    assert (result.dtype, result.device) == (torch.bfloat16, tensors.device)
    assert (bits(to_array(torch.cat(pieces))) == bits(to_array(result[0]))).all()


def test_the_divisor_of_an_average_is_not_rounded_to_the_type_of_the_sums(executor):
    schedule = build(ring(259), "multitree", "reduce", root=0)
    values = make_buffers(5, 259, 77, "bfloat16")
    average = executor.execute(schedule, to_tensor(values), "average")
    right = average_of(execute(schedule, values), 259)
    assert (bits(to_array(average)) == bits(right)).all()


def test_a_tensor_is_copied_before_the_collective_starts():
    for tensors in (torch.zeros(3, 5), list(torch.zeros(3, 5))):
        memory, form = take_buffers(tensors, 3)
        memory += 1
        assert not any(part.any() for part in tensors)
        assert form.device == torch.device("cpu")


def test_results_go_back_to_the_device_the_tensors_came_from():
    memory, form = take_buffers(torch.zeros(3, 5, device="meta"), 3)
    assert form.give_back(np.zeros(memory.shape, np.float32)).device == torch.device("meta")


@on_every_device
@ENGINES
def test_a_collective_is_between_what_the_caller_does_before_and_after(engine, device):
    with Communicator(torus(4, 4), engine=engine) as comm, own_stream(device):
        values = torch.zeros(16, 1 << 18, device=device)
        for _ in range(100):
            values += 1
        work = comm.all_reduce(values)
        values.zero_()
        result = work.wait() + 1
        assert result.unique().tolist() == [1601]


@on_every_device
def test_pieces_of_tensors_are_gathered(device):
    values = torch.from_numpy(make_buffers(6, 15, 200, "int32")).to(device)
    with Communicator(mesh(5, 3), engine="torch") as comm:
        pieces = comm.reduce_scatter(values).wait()
        gathered = comm.all_gather(pieces).wait()
        assert pieces[0].device == gathered.device == values.device
        assert (gathered == comm.all_reduce(values).wait()).all()


def test_arrays_may_be_given_to_the_torch_engine():
    values = make_buffers(6, 4, 30)
    with Communicator(torus(2, 2), engine="torch", check=True) as comm:
        work = comm.all_reduce(values)
        assert isinstance(work.wait(), np.ndarray)
        assert work.report.exact is True


def test_tensors_on_different_devices_are_refused():
    tensors = [torch.zeros(4)] * 3 + [torch.zeros(4, device="meta")]
    with (
        Communicator(torus(2, 2), engine="torch") as comm,
        pytest.raises(ValueError, match="agree in device: rank 0 cpu, rank 3 meta"),
    ):
        comm.all_reduce(tensors)


def test_index_tensors_are_kept_for_the_last_few_lengths(executor):
    schedule = build(torus(2, 2), "multitree")
    for n in range(1, 30):
        executor.execute(schedule, torch.zeros(4, n), mode="stepwise")
    kept = dict(executor._plans)
    executor.execute(schedule, torch.zeros(4, 29), mode="stepwise")
    assert len(kept) == 8
    assert dict(executor._plans) == kept


def test_one_fused_plan_serves_all_lengths(executor):
    schedule = build(torus(2, 2), "multitree")
    for n in range(1, 30):
        executor.execute(schedule, torch.zeros(4, n), mode="fused")
    assert len(executor._plans) == 1
