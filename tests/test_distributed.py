"""Two processes against one, and what becomes of the others when one of them ends.

Most processes here are forked from one that has imported torch already, and meet at a
store of this one, as those of ``torchrun`` do at its own; one test runs ``torchrun``.
"""

import csv
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
import test_training
import torch
from book_files import ROOT
from test_training import VALIDATION, new_model
from tiny_run import call, train_arguments, write_files
from torch import distributed as dist
from torch import nn

from transformer_lib import files
from transformer_lib.data import make_batch
from transformer_lib.faster import (
    LossScaler,
    ScaleConfig,
    distributed,
    step_at_scale,
    train_at_scale,
    training_at_scale,
)
from transformer_lib.training import load_tensors
from transformer_lib.training import loop as training
from transformer_lib.training.run import STATE
from transformer_lib.translation import command
from transformer_lib.translation.run import read_record
from transformer_lib.translation.translator import MODEL as TRANSLATOR

pytestmark = pytest.mark.usefixtures("one_thread")
MODEL = replace(test_training.MODEL, dropout=0.0)
CONFIG = ScaleConfig(epochs=3, warmup_steps=4, average=2)
# What takes long to import; torch._dynamo comes with the first optimiser.
PRELOADED = ["pytest", "torch._dynamo", "transformer_lib.translation.command"]
LIMIT = 600  # seconds, after which a test has hung


def batches(epoch):
    """The last one is a single pair: none for process 1."""
    return [*test_training.batches(epoch), make_batch([([3], [4])])]


def trained(config=CONFIG, folder=None, model=None):
    """Train here: the weights, and the losses of each epoch."""
    model = model or new_model(MODEL)
    history = train_at_scale(model, batches, VALIDATION, config, folder=folder)
    return weights_of(model), [[epoch.loss, epoch.validation_loss] for epoch in history]


def weights_of(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_nearly_the_same(found, expected):
    """Equal but for rounding.

    No loss depends on a bias of the keys. Its gradient is nothing but rounding, of
    which Adam makes steps; so it is left out.
    """
    torch.testing.assert_close(
        without_key_biases(found), without_key_biases(expected), rtol=1e-6, atol=1e-6
    )


def without_key_biases(found):
    if isinstance(found, dict):
        kept = {k: v for k, v in found.items() if not k.endswith("w_k.bias")}
        return {name: without_key_biases(value) for name, value in kept.items()}
    if isinstance(found, (list, tuple)):
        return [without_key_biases(value) for value in found]
    return found


# -- Two processes ---------------------------------------------------------------------


def forbid_writing(*_):
    raise AssertionError("only process 0 writes")


def enter(rank, port, place, function, arguments):
    """Be one of two, and leave what the function gives in a file."""
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "test",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    if rank:
        os.fsync = files.FileLock.acquire = forbid_writing
    torch.save(function(*arguments), place / str(rank))


class Pair:
    """Two processes that run the same function."""

    def __init__(self, place, function, *arguments):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        place.mkdir()
        self.place = place
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            self.store = dist.TCPStore(
                "127.0.0.1",
                self.port,
                is_master=True,
                wait_for_workers=False,
                master_listen_fd=listener.detach(),
            )
        self.processes = [
            context.Process(
                target=enter, args=(rank, self.port, place, function, arguments)
            )
            for rank in range(2)
        ]
        for process in self.processes:
            process.start()

    def wait(self, limit=LIMIT):
        """Give their exit statuses; None for one that has not ended."""
        until = time.monotonic() + limit
        for process in self.processes:
            process.join(max(0, until - time.monotonic()))
        return [process.exitcode for process in self.processes]

    def found(self, rank):
        return torch.load(self.place / str(rank))

    def end(self):
        for process in self.processes:
            process.kill()
            process.join()


@pytest.fixture
def pair(tmp_path):
    pairs = []

    def start(function, *arguments):
        pairs.append(Pair(tmp_path / f"pair {len(pairs)}", function, *arguments))
        return pairs[-1]

    yield start
    for started in pairs:
        started.end()


# -- Updates, and runs that go on ------------------------------------------------------


CASES = {
    "plain": CONFIG,
    "of several batches": replace(CONFIG, accumulate=2),
    "of two passes": replace(CONFIG, r_drop=2.0, checkpoint_layers=True),
    "cut short": replace(CONFIG, max_norm=0.01),
    "frozen": CONFIG,
    "stopped early": replace(CONFIG, epochs=9, patience=1, factor=40.0),
}


def noted(losses, *arguments, **more):
    """Make the step at scale, and note its loss per token."""
    loss, tokens = step_at_scale(*arguments, **more)
    losses.append(loss / tokens)
    return loss, tokens


def train_in_each_way():
    results = {}
    for name, config in CASES.items():
        model = new_model(MODEL)
        if name == "frozen":
            model.encoder.requires_grad_(False)
        if name == "plain" and distributed.rank():
            nn.init.zeros_(model.output.weight)  # it gets those of process 0
        steps = []
        training_at_scale.step_at_scale = partial(noted, steps)
        results[name] = *trained(config, model=model), steps
    training_at_scale.step_at_scale = step_at_scale
    return results


def skip_in_float16():
    """A gradient overflows in one process only; the scaler begins far too high."""
    torch.set_default_dtype(torch.float32)
    restless = LossScaler(2.0**40, interval=3)
    training_at_scale.precision.LossScaler = lambda *_, **__: restless
    config = replace(CONFIG, epochs=12, precision="float16")
    spoiled = []

    def spoil(gradient):
        spoiled.append(gradient)
        return gradient * (float("inf") if len(spoiled) == 40 else 1)

    model = new_model(MODEL)
    if distributed.rank():
        model.output.weight.register_hook(spoil)
    history = train_at_scale(model, batches, VALIDATION, config)
    torch.set_default_dtype(torch.float64)
    training_at_scale.precision.LossScaler = LossScaler
    return weights_of(model), [epoch.skipped for epoch in history]


def train_in_parts(folder):
    """Once without a stop, once with; and the random numbers that dropout began at."""
    runs, drawn = [], []
    for epochs, where in ((3, None), (1, folder), (3, folder)):
        model = new_model(replace(MODEL, dropout=0.3))
        model.encoder.register_forward_hook(
            lambda *_: drawn.append(torch.get_rng_state())
        )
        runs.append(trained(replace(CONFIG, epochs=epochs), where, model))
    return runs[0], runs[2], drawn


def train_together(folder):
    """Do all that two processes do in peace; in the end, one of them sees no folder."""
    found = {}
    try:
        with distributed.process_group():
            assert distributed.world_size() == 2
            found["updates"] = train_in_each_way()
            found["skipped"] = skip_in_float16()
            found["parts"] = train_in_parts(folder / "parts")
            found["by two"] = trained(folder=folder / "by one")
            # As with two computers that have not the same disk.
            trained(folder=folder / "apart" if distributed.is_main() else None)
    except (ValueError, OSError, SystemExit) as error:
        found["refused"] = str(error)
    return found


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What each of two processes found, and the folder with their runs."""
    folder = tmp_path_factory.mktemp("together")
    torch.set_default_dtype(torch.float64)  # as for the tests, which come later
    for name in ("by one", "apart"):
        trained(replace(CONFIG, epochs=1), folder / name)
    two = Pair(folder / "pair", train_together, folder)
    assert two.wait() == [0, 0]
    two.end()
    return two.found(0), two.found(1), folder


@pytest.mark.slow
def test_two_processes_make_the_updates_of_one(together):
    one, other, _ = together
    expected = train_in_each_way()
    assert 1 < len(expected["stopped early"][1]) < 9
    torch.testing.assert_close(one["updates"], other["updates"], rtol=0, atol=0)
    for name in CASES:
        assert_nearly_the_same(one["updates"][name], expected[name])


@pytest.mark.slow
def test_a_step_whose_gradient_overflows_in_one_process_is_skipped_by_all(together):
    weights, skipped = together[0]["skipped"]
    assert 0 < skipped[0] < skipped[-1]
    assert all(weight.isfinite().all() for weight in weights.values())
    torch.testing.assert_close(
        (weights, skipped), together[1]["skipped"], rtol=0, atol=0
    )


@pytest.mark.slow
def test_a_resumed_run_is_exact_since_each_process_draws_numbers_of_its_own(together):
    (whole, resumed, drawn), other = together[0]["parts"], together[1]["parts"]
    for found in (resumed, *other[:2]):
        torch.testing.assert_close(whole, found, rtol=0, atol=0)
    assert not any(map(torch.equal, drawn, other[2]))


@pytest.mark.slow
def test_another_number_of_processes_may_go_on_with_a_run(together):
    assert_nearly_the_same(together[0]["by two"], trained())
    longer = replace(CONFIG, epochs=4)
    assert_nearly_the_same(trained(longer, together[2] / "by one"), trained(longer))


@pytest.mark.slow
def test_a_process_that_does_not_see_the_run_refuses_to_join_it(together):
    said = f"step must be that of process 0, {len(batches(1))}, got 0: all processes"
    assert said in together[1]["refused"]
    assert together[0]["refused"] == "1"


def test_gradients_weigh_every_token_alike_and_their_mean_over_processes_does_not():
    whole = make_batch([([3], [4]), ([5, 6, 7, 8], [8, 7, 6, 5]), ([9], [10])])
    shares, gradients, losses = [], [], []
    for rank in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed, "rank", lambda rank=rank: rank)
            patch.setattr(distributed, "world_size", lambda: 2)
            shares.append(distributed.shard(whole))
    assert [row.tolist() for row in shares[0].src] == whole.src[::2].tolist()
    assert [row.tolist() for row in shares[1].tgt] == whole.tgt[1::2].tolist()
    for batch in (whole, *shares):
        model = new_model(MODEL)
        optimizer = torch.optim.SGD(model.parameters())
        config = replace(CONFIG, max_norm=1e9)
        off = LossScaler(1, interval=0)
        losses.append(step_at_scale(model, optimizer, [batch], 0.0, config, off))
        gradients.append([p.grad for p in model.parameters()])
    tokens = [count for _, count in losses]
    assert tokens == [9, 4, 5]
    naive = [(a + b) / 2 for a, b in zip(*gradients[1:], strict=True)]
    right = [(4 * a + 5 * b) / 9 for a, b in zip(*gradients[1:], strict=True)]
    torch.testing.assert_close(right, gradients[0])
    assert max((a - b).abs().max() for a, b in zip(naive, right, strict=True)) > 1e-3


# -- The command -----------------------------------------------------------------------


def run_command(arguments, how=None):
    """Run it; in the second epoch, something may happen to a process."""
    measure, calls = training.evaluate, []

    def disturbed(*given):
        calls.append(given)
        happens, to = how or (None, None)
        if len(calls) == 2 and int(os.environ["RANK"]) == to:
            if happens == "sleep":
                time.sleep(LIMIT)
            os.kill(os.getpid(), getattr(signal, happens))
        return measure(*given)

    training.evaluate = disturbed
    if how and how[0] == "sleep":
        distributed.PATIENCE = timedelta(seconds=6)
    return call(*arguments)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def undisturbed(text, tmp_path_factory):
    """A finished run of two processes, and what they said."""
    place = tmp_path_factory.mktemp("runs")
    two = Pair(place / "pair", run_command, train_arguments(text, place / "whole"))
    assert two.wait() == [0, 0]
    two.end()
    return place / "whole", two.found(0), two.found(1)


def tensors_of(path):
    """Read a checkpoint, but not how long its epochs took."""
    tensors, about = load_tensors(path)
    for epoch in about.get("history", []):
        del epoch["seconds"]
    tensors = {name: (p.dtype, p.numpy().tobytes()) for name, p in tensors.items()}
    return tensors, about


def tensors_in(folder):
    return [tensors_of(folder / name) for name in (TRANSLATOR, STATE)]


@pytest.mark.slow
def test_process_0_alone_talks_and_the_record_tells_how_many_there_were(undisturbed):
    folder, (status, out, err), other = undisturbed
    assert (status, out.count("epoch"), out.count("chrF")) == (0, 2, 1)
    assert err == f"The translator is in {folder}.\n"
    assert other == (0, "", "")
    assert read_record(folder)["processes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_if_one_is_killed_the_other_ends_in_words_and_the_same_command_goes_on(
    pair, text, undisturbed, tmp_path, killed
):
    arguments = train_arguments(text, tmp_path / "run")
    two = pair(run_command, arguments, ("SIGKILL", killed))
    statuses = two.wait()
    assert statuses[killed] == -signal.SIGKILL
    status, out, err = two.found(1 - killed)
    assert status == 1
    assert err.endswith(
        "error: another process of this run has ended, or has not answered for 10 "
        "minutes\n"
    )
    if killed:
        assert out.count("epoch") == 1
        assert "Stopped. The epochs so far are kept; to go on:\n" in err
    assert len(tensors_of(tmp_path / "run" / STATE)[1]["history"]) == 1

    two = pair(run_command, arguments)
    assert two.wait() == [0, 0]
    assert "Going on with the run in" in two.found(0)[2]
    assert tensors_in(tmp_path / "run") == tensors_in(undisturbed[0])


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_ctrl_c_in_one_process_ends_both(pair, text, tmp_path, rank):
    arguments = train_arguments(text, tmp_path / "run")
    two = pair(run_command, arguments, ("SIGINT", rank))
    assert two.wait() == [0, 0]
    assert two.found(rank)[0] == 130
    assert two.found(1 - rank)[0] == 1
    said = two.found(0)[2] + two.found(1)[2]
    assert said.count("Stopped. The epochs so far are kept") == 1
    assert "Traceback" not in said
    assert "error" not in said


@pytest.mark.slow
def test_nobody_waits_for_ever_for_a_process_that_does_not_answer(pair, text, tmp_path):
    arguments = train_arguments(text, tmp_path / "run")
    two = pair(run_command, arguments, ("sleep", 1))
    two.processes[0].join(LIMIT / 2)
    status, _, err = two.found(0)
    assert status == 1
    assert "or has not answered for 0.1 minutes\n" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--epochs", "none"], "argument --epochs: invalid int value: 'none'"),
        (["--seed", "7"], "seed must be 0, got 7; choose another folder"),
    ],
)
def test_a_refusal_is_said_once(pair, text, undisturbed, change, said):
    arguments = train_arguments(text, undisturbed[0])
    two = pair(run_command, [*arguments, *change])
    assert two.wait() == [0, 0]
    assert all(two.found(rank)[0] in (1, 2) for rank in range(2))
    words = two.found(0)[2] + two.found(1)[2]
    assert words.count("error: ") == 1
    assert said in words


def test_fewer_gpus_than_processes_are_refused(text, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "world_size", lambda: 4)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    arguments = [*train_arguments(text, tmp_path / "run"), "--device", "cuda"]
    status, _, err = call(*arguments)
    assert status == 2
    assert "--nproc_per_node must be at most the number of GPUs, 2, got 3" in err


# -- torchrun --------------------------------------------------------------------------


SCRIPT = """\
import os, signal, sys
from transformer_lib.training import (loop as training)
from transformer_lib.translation.command import main

measure, calls = training.evaluate, []

def disturbed(*given):
    calls.append(given)
    if len(calls) == 2 and os.environ["RANK"] == "1":
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    return measure(*given)

training.evaluate = disturbed
sys.exit(main())
"""


def losses(folder):
    with open(folder / "log.csv", newline="", encoding="utf-8") as file:
        return [float(row["validation_loss"]) for row in csv.DictReader(file)]


@pytest.mark.slow
def test_torchrun_starts_anew_after_a_kill_and_goes_on(text, undisturbed, tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "run"
    script.write_text(SCRIPT, encoding="utf-8")
    arguments = train_arguments(text, folder)
    run = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc_per_node=2", "--max-restarts=1", script, *arguments),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
    )
    assert run.returncode == 0, run.stderr
    assert (run.stdout.count("epoch"), run.stdout.count("chrF")) == (2, 1)
    assert f"Going on with the run in {folder}." in run.stderr
    assert losses(folder) == pytest.approx(losses(undisturbed[0]), rel=1e-3)
