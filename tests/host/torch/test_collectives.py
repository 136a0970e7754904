"""Every collective and message does what PyTorch documents for it."""

import os
import random
import time
from functools import reduce
from operator import and_, or_, xor

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is no backend")

import torch.distributed as dist  # noqa: E402

from multitree.host.torch import creation  # noqa: E402
from multitree.host.torch.messages import PostedMessages  # noqa: E402
from multitree.torch import group_of  # noqa: E402
from tests.host.torch.ranks import run_ranks  # noqa: E402

SEED = 3
NUM_RANKS = 4
DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool),
    torch.complex128,
)
TRANSPORTS = pytest.mark.parametrize("transport", ["shared_memory", "gloo"])


def of_rank(rank, shape=(3, 5), dtype=torch.float32):
    """Small whole numbers, so that sums in any order are exact."""
    torch.manual_seed(rank)
    return torch.randint(0, 4, shape).to(dtype)


def ranks_of(shape=(3, 5), dtype=torch.float32):
    return torch.stack([of_rank(rank, shape, dtype) for rank in range(NUM_RANKS)])


def after(collective, tensor, *arguments, **named):
    """A tensor when a collective has written to it."""
    collective(tensor, *arguments, **named)
    return tensor


def reductions(rank, num_ranks):
    """All operators on all types; several tensors at once; strided and empty ones."""
    ops = {
        "SUM": lambda x: x.sum(0, dtype=x.dtype) if x.dtype != torch.bool else x.any(0),
        "PRODUCT": lambda x: x.prod(0, dtype=x.dtype) if x.dtype != torch.bool else x.all(0),
        "MIN": lambda x: x.amin(0),
        "MAX": lambda x: x.amax(0),
    }
    for dtype in DTYPES:
        for op, reference in ops.items():
            if dtype.is_complex and op in ("MIN", "MAX"):
                continue
            group = dist.group.WORLD
            mine = of_rank(rank, dtype=dtype)
            group.allreduce([mine], op=getattr(dist.ReduceOp, op)).wait()
            assert torch.equal(mine, reference(ranks_of(dtype=dtype))), (dtype, op)
    for name, operator in (("BAND", and_), ("BOR", or_), ("BXOR", xor)):
        mine = of_rank(rank, dtype=torch.int32)
        dist.all_reduce(mine, getattr(dist.ReduceOp, name))
        assert torch.equal(mine, reduce(operator, ranks_of(dtype=torch.int32))), name
    average = after(dist.all_reduce, of_rank(rank), dist.ReduceOp.AVG)
    assert torch.equal(average, ranks_of().mean(0))
    # As NCCL rounds them: towards zero.
    whole = torch.tensor([7, -7, num_ranks, -1]) * (rank == 0)
    kept = torch.zeros(1, dtype=torch.int64)
    dist.reduce_scatter_tensor(kept, whole, dist.ReduceOp.AVG)
    quotient = [1, -1, 1, 0]
    assert kept.item() == quotient[rank]
    assert after(dist.all_reduce, whole, dist.ReduceOp.AVG).tolist() == quotient
    strided = after(dist.all_reduce, of_rank(rank, (4, 6)).t())
    assert torch.equal(strided, ranks_of((4, 6)).sum(0).t())
    dist.all_reduce(torch.empty(0))
    several = [of_rank(rank, (n,)) for n in (1, 7, 0, 64)]
    dist.all_reduce_coalesced(several)
    for n, part in zip((1, 7, 0, 64), several, strict=True):
        assert torch.equal(part, ranks_of((n,)).sum(0))
    for root in range(num_ranks):
        right = ranks_of().sum(0) if rank == root else of_rank(rank)
        assert torch.equal(after(dist.reduce, of_rank(rank), root), right)
    with torch.inference_mode():
        inferred = after(dist.all_reduce, of_rank(rank))
    assert torch.equal(inferred, ranks_of().sum(0))
    leaf = of_rank(rank).requires_grad_()
    dist.all_reduce(leaf.data)
    assert torch.equal(leaf, ranks_of().sum(0))
    conjugate = of_rank(rank, dtype=torch.complex64) * 1j
    group.allreduce([conjugate.conj()]).wait()
    assert torch.equal(conjugate, ranks_of(dtype=torch.complex64).sum(0) * 1j)


def copies(rank, num_ranks):
    """Broadcast, gathers, scatters, all-to-all."""
    for root in range(num_ranks):
        assert torch.equal(after(dist.broadcast, of_rank(rank), root), of_rank(root))
        gathered = [torch.zeros(3, 5) for _ in range(num_ranks)] if rank == root else None
        dist.gather(of_rank(rank), gathered, dst=root)
        if rank == root:
            assert torch.equal(torch.stack(gathered), ranks_of())
        parts = list(ranks_of()) if rank == root else None
        mine = after(dist.scatter, torch.zeros(3, 5), parts, src=root)
        assert torch.equal(mine, of_rank(rank))
    gathered = [torch.zeros(3, 5) for _ in range(num_ranks)]
    dist.all_gather(gathered, of_rank(rank))
    assert torch.equal(torch.stack(gathered), ranks_of())
    uneven = [torch.zeros(n) for n in range(num_ranks)]
    dist.all_gather(uneven, torch.full((rank,), float(rank)))
    assert [part.tolist() for part in uneven] == [[float(n)] * n for n in range(num_ranks)]
    whole = after(dist.all_gather_into_tensor, torch.zeros(num_ranks * 3, 5), of_rank(rank))
    assert torch.equal(whole, ranks_of().view(-1, 5))
    whole = torch.arange(num_ranks * 6.0) + rank
    mine = after(dist.reduce_scatter_tensor, torch.zeros(6), whole)
    sums = sum(torch.arange(num_ranks * 6.0) + other for other in range(num_ranks))
    assert torch.equal(mine, sums[6 * rank : 6 * rank + 6])
    uneven = [torch.full((n + 1,), float(rank)) for n in range(num_ranks)]
    mine = after(dist.reduce_scatter, torch.zeros(rank + 1), uneven)
    assert mine.tolist() == [sum(range(num_ranks))] * (rank + 1)
    everything = torch.arange(num_ranks) + 10.0 * rank
    mine = after(dist.all_to_all_single, torch.zeros(num_ranks), everything)
    assert mine.tolist() == [10.0 * other + rank for other in range(num_ranks)]
    sends = [to + 1 for to in range(num_ranks)]
    mine = torch.zeros(num_ranks * (rank + 1), 2)
    everything = torch.full((sum(sends), 2), float(rank))
    dist.all_to_all_single(mine, everything, [rank + 1] * num_ranks, sends)
    right = [[float(other)] * 2 for other in range(num_ranks) for _ in range(rank + 1)]
    assert mine.tolist() == right
    boxes = [None] * num_ranks
    dist.all_gather_object(boxes, {"rank": rank, "text": "x" * rank})
    assert boxes == [{"rank": other, "text": "x" * other} for other in range(num_ranks)]
    # Nothing but what is ours ran, and each collective is counted.
    counts = group_of().counts
    assert counts["broadcast", "torch"] == num_ranks and counts["gather", "torch"] == num_ranks


BYTE_DTYPES = ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e8m0fnu", "bits8", "int4")


def marked(dtype, mark, length=6):
    """A tensor of a type that need not have arithmetic, with this number in every byte."""
    bits = torch.full((length * dtype.itemsize,), mark, dtype=torch.uint8)
    if not str(dtype).startswith("torch.q"):
        return bits.view(dtype)
    made = torch._empty_affine_quantized([length], scale=0.5, zero_point=1, dtype=dtype)
    return made.untyped_storage().copy_(bits.untyped_storage()) and made


def marks(tensors):
    """The numbers in the bytes of tensors."""
    return [set(bytes(tensor.contiguous().untyped_storage())) for tensor in tensors]


def unadded(rank, num_ranks):
    """What has no sums, quantised numbers too, is copied byte by byte, and not reduced."""
    for dtype in [getattr(torch, name) for name in (*BYTE_DTYPES, "quint8", "qint32")]:
        mine, nines = marked(dtype, rank), [marked(dtype, 9) for _ in range(num_ranks)]
        assert marks([after(dist.broadcast, marked(dtype, rank), 1)]) == [{1}], dtype
        every = [{other} for other in range(num_ranks)]
        assert marks(after(dist.all_gather, nines, mine)) == every, dtype
        sent = [marked(dtype, rank + to) for to in range(num_ranks)]
        received = after(dist.all_to_all, nines, sent)
        assert marks(received) == [{rank + other} for other in range(num_ranks)], dtype
        work = dist.isend(mine, (rank + 1) % num_ranks)
        dist.recv(nines[0], (rank - 1) % num_ranks)
        work.wait()
        assert marks(nines[:1]) == [{(rank - 1) % num_ranks}], dtype
        for collective, *inputs in ((dist.all_reduce,), (dist.reduce_scatter, nines)):
            with pytest.raises(TypeError, match=f"complex128 for sum, not {dtype}$"):
                collective(marked(dtype, 1), *inputs)
    strided = torch.arange(6).to(torch.uint16).view(2, 3).t() if rank else torch.zeros(3, 2)
    assert after(dist.broadcast, strided.to(torch.uint16), 1).tolist() == [[0, 3], [1, 4], [2, 5]]
    packed = torch._empty_affine_quantized([4], scale=1, zero_point=0, dtype=torch.quint4x2)
    with pytest.raises(TypeError, match=r"of whole bytes, not torch\.quint4x2"):
        dist.broadcast(packed, 0)
    halves = torch.full((3,), 1 + 1j, dtype=torch.complex32)
    assert after(dist.all_reduce, halves).to(torch.complex64).tolist() == [4 + 4j] * 3


def messages(rank, num_ranks):
    """Sends and receives of any length, in any order, with tags, from any rank, to oneself."""
    drawn = random.Random(SEED)
    lengths = [drawn.choice([0, 1, 100, 8191, 8193, 300_000]) for _ in range(40)]
    peer = rank ^ 1
    sent = [torch.full((n,), float(index + rank)) for index, n in enumerate(lengths)]
    sends = [dist.isend(tensor, peer, tag=index % 3) for index, tensor in enumerate(sent)]
    order = sorted(range(40), key=lambda index: (-(index % 3), index))
    received = {index: torch.zeros(lengths[index]) for index in order}
    receives = [dist.irecv(received[index], peer, tag=index % 3) for index in order]
    total = torch.ones(5)
    dist.all_reduce(total)  # goes on whatever messages wait
    for work in [*sends, *receives]:
        work.wait()
    for index, tensor in received.items():
        assert (tensor == index + peer).all(), f"seed {SEED}"
    if rank == 0:
        seen = []
        for _ in range(1, num_ranks):
            value = torch.zeros(1)
            source = dist.recv(value)
            assert value.item() == source
            seen.append(source)
        assert sorted(seen) == list(range(1, num_ranks))
    else:
        dist.send(torch.tensor([float(rank)]), 0)
    value = torch.zeros(2)
    work = dist.irecv(value, rank)
    dist.isend(torch.ones(2), rank).wait()
    work.wait()
    assert value.tolist() == [1, 1]
    dist.barrier()


def left_alone(rank, num_ranks):
    """The others have left when a rank that has sent its part looks at what came."""
    if rank == 1:
        send = PostedMessages.send

        def send_and_pause(self, action, memory):
            send(self, action, memory)
            time.sleep(0.5)

        PostedMessages.send = send_and_pause
    dist.barrier()


def in_flight(rank, num_ranks):
    """Many collectives of several groups at once, waited for in another order."""
    groups = [dist.group.WORLD, dist.new_group([0, 1, 2, 3]), dist.new_group([0, 2])]
    works = []
    for index in range(60):
        group = groups[index % 3]
        if dist.get_rank(group) < 0:
            continue
        tensor = torch.full((index * 50 + 1,), float(rank))
        works.append((tensor, group, dist.all_reduce(tensor, group=group, async_op=True)))
    for tensor, group, work in reversed(works):
        assert work.get_future().wait()[0] is tensor
        ranks = dist.get_process_group_ranks(group)
        assert (tensor == sum(ranks)).all()
        assert work.is_completed() and work.is_success()


def sparse(rank, num_ranks):
    """Sums of sparse tensors with entries at other places on every rank."""
    dense = torch.zeros(6, 2)
    dense[rank], dense[5] = rank + 1, 1
    mine = dense.to_sparse(1)
    dist.all_reduce(mine)
    right = torch.zeros(6, 2)
    for other in range(num_ranks):
        right[other] += other + 1
    right[5] += num_ranks
    assert torch.equal(mine.to_dense(), right)
    (report,) = group_of().reports
    assert report.reason == "sparse" and report.schedule_hash is None


def forked(rank, num_ranks):
    """A child that ends leaves its parent's groups alone."""
    dist.barrier()
    child = os.fork()
    if child == 0:
        os._exit(len(creation._GROUPS))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert after(dist.all_reduce, torch.ones(3)).tolist() == [num_ranks] * 3


FUNCTIONS = forked, reductions, copies, unadded, messages, in_flight, sparse


@TRANSPORTS
@pytest.mark.parametrize("function", FUNCTIONS)
def test_on_every_transport(function, transport):
    run_ranks(function, NUM_RANKS, MULTITREE_TRANSPORT=transport)


def test_a_rank_may_leave_while_others_take_what_it_has_sent():
    run_ranks(left_alone, NUM_RANKS, MULTITREE_TRANSPORT="gloo")


def test_what_an_engine_lacks_runs_on_each_rank_and_the_report_says_so():
    for function in (reductions, hosted, unadded):
        run_ranks(function, NUM_RANKS, MULTITREE_ENGINE="numpy")


def hosted(rank, num_ranks):
    """Which collectives a hosted engine runs, and why it does not run the others."""
    group = dist.group.WORLD
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(3, dtype=torch.int64))
    dist.all_reduce(torch.ones(3), dist.ReduceOp.PRODUCT)
    dist.all_reduce(torch.ones(4, dtype=torch.int32), dist.ReduceOp.AVG)
    dist.broadcast(torch.ones(3, dtype=torch.float64), 1)
    dist.broadcast(torch.ones(3, dtype=torch.uint8), 1)
    ran = [(report.engine, report.reason) for report in group_of(group).reports]
    assert ran == [
        ("numpy", None),
        ("torch", "no adder for int64"),
        ("torch", "no operator product"),
        ("torch", "no average of int32"),
        ("numpy", None),
        ("torch", "3 bytes are no whole words"),
    ]


def alone(rank, num_ranks):
    mine = torch.tensor([1.0, -0.0])
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        assert after(dist.all_reduce, mine, op).tolist() == [1, 0]
    assert after(dist.all_gather, [torch.zeros(2)], mine)[0].tolist() == [1, 0]
    assert after(dist.reduce_scatter, torch.zeros(2), [mine]).tolist() == [1, 0]
    assert after(dist.all_to_all_single, torch.zeros(2), torch.ones(2)).tolist() == [1, 1]
    dist.broadcast(mine, 0)
    dist.barrier()


def test_a_group_of_one_rank_needs_no_topology():
    run_ranks(alone, 1)


def wrong_calls(rank, num_ranks):
    """What is refused before anything is sent, so that the group goes on."""
    refused = []

    def expect(error, function, *arguments, **named):
        try:
            function(*arguments, **named)
        except error as problem:
            refused.append(str(problem))
        else:
            raise AssertionError(f"{function} must refuse {arguments}")

    group = dist.group.WORLD
    expect(TypeError, group.allreduce, [torch.ones(2, dtype=torch.bool)], dist.ReduceOp.AVG)
    expect(TypeError, group.allreduce, [torch.ones(2)], dist.ReduceOp.BAND)
    expect(TypeError, group.broadcast, [torch.ones(2).to_sparse()], 0)
    expect(ValueError, group.allgather, [[torch.ones(2)]], [torch.ones(2)])
    expect(ValueError, group.all_gather_single, torch.ones(3), torch.ones(2))
    expect(ValueError, group.all_to_all_single, torch.ones(4), torch.ones(4), [1, 1, 1, 2], [])
    expect(ValueError, group.send, [torch.ones(1)], num_ranks, 0)
    expect(TypeError, dist.new_group, backend="multitree", pg_options=object())
    assert after(dist.all_reduce, torch.ones(2)).tolist() == [num_ranks] * 2
    return refused


def test_wrong_calls_are_refused_and_leave_the_group_as_it_was():
    expected = ["Buffers", "Buffers", "Tensors", "Output list", "Tensor of all ranks"]
    expected += ["Output splits", "Rank", "Options"]
    for refused in run_ranks(wrong_calls, NUM_RANKS):
        assert [message.split(" must ")[0] for message in refused] == expected
