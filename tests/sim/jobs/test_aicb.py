"""Workload files of SimAI and AICB: what is taken, and what is refused."""

import random

import pytest

from multitree.sim.jobs import aicb
from multitree.sim.jobs.aicb import CSV_COLUMNS, read_aicb_csv, read_aicb_text
from multitree.sim.jobs.job import Collective, JobError, LeftOut
from multitree.sim.jobs.read import load_job
from multitree.sim.jobs.systolic_arrays import HEADER as HEADINGS
from multitree.sim.jobs.systolic_arrays import read_layers
from multitree.topology.errors import ContentError
from tests.refusals import refuses

TRANSFORMER, GROUP = "HYBRID_TRANSFORMER_FWD_IN_BCKWD", "model_parallel_NPU_group"
HEADER = f"{TRANSFORMER}\t{GROUP}: 2 checkpoints: 0"
ROWS = (
    "grad_norm\t-1\t7\tALLGATHER\t64\t5\tNONE\t0\t3\tREDUCESCATTER\t128\t100",
    "mlp_layer\t-1\t500\tALLREDUCE\t1024\t400\tALLREDUCE\t2048\t300\tNONE\t0\t100",
    "norm\t-1\t0\tBROADCAST\t16\t1\tNONE\t0\t1\tALLTOALL\t4096\t100",
)
TEXT = "\n".join([HEADER, "3", *ROWS, ""])
CSV = "\n".join(
    [
        "[rank0 ~ rank3]",
        ",".join(CSV_COLUMNS),
        "CommType.broadcast,CommGroup.dp_group,2,64,init,None,None,,None,None,None,2",
        "CommType.barrier,CommGroup.all,2,64,init.__init__,None,None,,None,None,None,1",
        "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1",
        "CommType.all_reduce,CommGroup.tp_group,2,256,forward,None,None,,None,None,None,1",
        "CommType.reduce_scatter_tensor,CommGroup.dp_group,2,512,step,None,None,,None,None,None,1",
        "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1",
        "CommType.all_gather,CommGroup.dp_group,2,512,forward,None,None,,None,None,None,1",
        "CommType.epoch_end,None,None,0,,None,None,,None,None,None,1",
        "",
    ]
)
LAYERS = "\n".join(
    [HEADINGS + ", Strides,", "Conv1, 224, 224, 7, 7, 3, 64, 2,", "FC, 1, 1, 1, 1, 9, 8, 1"]
)


@pytest.fixture
def read(tmp_path):
    """The job of a text, from a file with a suffix."""

    def read(text, suffix=".txt"):
        path = tmp_path / f"job{suffix}"
        path.write_text(text)
        return load_job(path)

    return read


def test_a_row_is_a_layer_with_its_times_and_the_groups_of_its_columns(read):
    job = read(TEXT)
    first, second, _ = job.layers
    assert (job.tensor_parallel, job.has_compute, job.num_parameters) == (2, True, 0)
    assert [stage.compute_ns for stage in second.stages] == [500, 400, 300]
    assert second.update_ns == 100
    assert first.forward.collective == Collective("all_gather", 64, "tensor")
    assert second.input_gradient.collective == Collective("all_reduce", 2048, "tensor")
    assert first.weight_gradient.collective == Collective("reduce_scatter", 128, "data")
    assert [each.kind for each in job.collectives].count("broadcast") == 1
    assert job.left_out == (LeftOut("ALLTOALL", 1, 4096, "no schedule of ours is an all-to-all"),)


def test_the_keys_of_newer_files_are_taken_where_they_ask_for_nothing_more(read):
    newer = "model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 24 ga: 1 all_gpus: 32 checkpoints: 0"
    newer += " checkpoint_initiates: 0 pp_comm: 0"
    job = read(TEXT.replace("model_parallel_NPU_group: 2 checkpoints: 0", newer))
    assert (job.tensor_parallel, job.recorded_ranks) == (2, 32)


def test_a_micro_test_is_one_of_data_parallel_ranks(read):
    job = read("MICRO\n1\nmicro_test\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t4096\t1\n")
    assert (job.tensor_parallel, job.collectives) == (1, (Collective("all_reduce", 4096, "data"),))


def test_a_file_of_all_to_alls_is_refused_by_count_and_bytes(read):
    row = "micro_test\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLTOALL\t{}\t1"
    text = "\n".join(["MICRO", "2", row.format(4096), row.format(8192)])
    refuses(JobError, "at least one, but 2 collectives ALLTOALL, 12288 bytes, not", read, text)


def test_a_csv_has_its_setup_apart_and_its_rows_in_order(read):
    job = read(CSV, ".csv")
    assert job.setup == (Collective("broadcast", 64),) * 2
    assert [each.kind for each in job.collectives] == ["all_reduce", "reduce_scatter", "all_gather"]
    assert [each.group for each in job.collectives] == ["tensor", "data", "data"]
    assert (job.num_iterations, job.has_compute, job.tensor_parallel) == (2, False, 2)
    assert job.recorded_ranks == 4
    assert [each.kind for each in job.left_out] == ["barrier"]
    shapes = "CommType.computation,None,None,((1, 8), (8, 4)),forward,None,None,,None,None,None,1"
    (_, computation) = read(CSV + shapes, ".csv").left_out
    assert (computation.kind, computation.count, computation.size_bytes) == ("computation", 1, 0)
    unended = "\n".join(CSV.splitlines()[:-1])
    assert read(unended, ".csv").num_iterations == 2
    assert read(CSV.replace("[rank0 ~ rank3]\n", ""), ".csv").recorded_ranks == 4
    assert read(CSV.replace("tp_group", "dp_group"), ".csv").tensor_parallel == 1


def changed(text, number, old, new):
    """A text with something else in one line."""
    lines = text.split("\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("number", "old", "new", "says"),
    [
        (1, TRANSFORMER, "DLRM", "line 1: workload must be HYBRID.* or MICRO"),
        (1, "checkpoints: 0", "checkpoints: 3", "line 1: checkpoints must be 0, .*, not 3"),
        (1, "checkpoints: 0", "pp: 2", "line 1: pp must be 1, nothing else is modelled, not 2"),
        (1, "checkpoints: 0", "ep: 8", "line 1: ep must be 1"),
        (1, "checkpoints: 0", "seed: 8", "line 1: key must be .*, not 'seed'"),
        (1, "points: 0", "points:", "line 1: checkpoints must be an integer .* 'nothing'"),
        (1, "checkpoints: 0", "model_parallel_NPU_group: 2", "line 1: key must come once"),
        (1, GROUP + ": 2", "", "line 1: key model_parallel_NPU_group must be there"),
        (1, "group: 2", "group: 0", "line 1: model_parallel_NPU_group must be .*, not 0"),
        (2, "3", "4", "line 2: number of rows must be that of the lines below, 3, not 4"),
        (2, "3", "three", "line 2: number of rows must be an integer .*, not 'three'"),
        (3, "\t-1", "\t0", "line 3: dependency must be -1, not '0'"),
        (3, "\t100", "", "line 3: columns must be 12, not 11"),
        (3, "\t7", "\t-7", "line 3: forward time must be an integer .*, not '-7'"),
        (3, "\t7", "\t7.5", "line 3: forward time must be an integer .*, not '7.5'"),
        (3, "ALLGATHER", "GATHER", "line 3: forward collective must be NONE or .*, not 'GATHER'"),
        (3, "ALLGATHER\t64", "ALLGATHER\t0", "forward size must be at least 1 byte for ALLGATHER"),
        (4, "NONE\t0", "NONE\t8", "line 4: weight gradient size must be 0 without a collective"),
        (5, "\t100", "\t" + "9" * 19, "line 5: update time must be an integer within"),
        (5, "norm", "n\x01", "line 5: name must be .* printable"),
    ],
)
@pytest.mark.every_set
def test_a_malformed_text_is_refused_with_line_rule_and_value(read, number, old, new, says):
    refuses(JobError, says, read, changed(TEXT, number, old, new))


@pytest.mark.parametrize(
    ("number", "old", "new", "says"),
    [
        (1, "rank0", "rank4", r"line 1: ranks must be \[rank0 ~ rankN\]"),
        (2, "count", "counts", "line 2: columns must be comm_type,"),
        (3, ",2", ",x", "line 3: comm_group_size must be an integer .*, not 'x'"),
        (3, "broadcast", "scatter", "line 3: comm_type must be all_reduce or .*, not 'scatter'"),
        (3, "dp_group", "ep_group", "line 3: comm_group must be dp_group or tp_group, no other"),
        (6, ",256", ",0", "line 6: msg_size must be an integer within 1.."),
        (6, ",1", ",0", "line 6: count must be an integer within 1.."),
        (6, ",1", ",", "line 6: count must be an integer within 1.*, not ''"),
        (6, ",1", ",99999999", "line 6: collectives must be at most 1000000"),
        (7, "2,512", "3,512", "line 7: comm_group_size must be that of the rows above, 2, not 3"),
        (7, ",step,", ",st,ep,", "line 7: columns must be 12, not 13"),
        (7, ",step,", ",st\x01ep,", "line 7: stage must be 1 to 200 printable characters"),
    ],
)
@pytest.mark.every_set
def test_a_malformed_csv_is_refused_with_line_rule_and_value(read, number, old, new, says):
    refuses(JobError, says, read, changed(CSV, number, old, new), ".csv")


def test_a_csv_has_as_many_collectives_as_it_may_and_no_more(read, monkeypatch):
    monkeypatch.setattr(aicb, "MOST_CSV_ROWS", 5)
    assert len(read(CSV, ".csv").collectives) == 3  # and two in the setup
    monkeypatch.setattr(aicb, "MOST_CSV_ROWS", 4)
    refuses(JobError, "line 9: collectives must be at most 4", read, CSV, ".csv")


PARTS = ("", "0", "1", "-", "\t", "\n", ",", "9" * 25, "NONE", "ALLREDUCE", "\0", "٤", "\x85", " 1")


def mutated(rng, text):
    """A text with some characters changed, or its end cut off."""
    data = list(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        data[at : at + rng.choice([0, 1, 1, 8])] = rng.choice(PARTS)
    return "".join(data)[: rng.choice([None] * 9 + [rng.randrange(len(text))])]


@pytest.mark.parametrize(
    ("text", "read_text"), [(TEXT, read_aicb_text), (CSV, read_aicb_csv), (LAYERS, read_layers)]
)
@pytest.mark.every_set
def test_a_damaged_text_is_taken_or_refused_in_one_line(text, read_text):
    rng, refused = random.Random(21), 0
    for number in range(1500):
        damaged = mutated(rng, text)
        try:
            read_text(damaged) if read_text is read_layers else read_text("job", damaged)
        except (ContentError, JobError) as error:
            refused += 1
            assert "\n" not in str(error), number
    assert 700 < refused < 1500
