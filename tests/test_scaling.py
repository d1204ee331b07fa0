"""What a large run needs, on paper."""

import pytest
import torch

from transformer_lib.faster.scaling import (
    Machine,
    ModelSize,
    Split,
    kept_per_token,
    memory,
    seconds,
    traffic,
    training_operations,
)
from transformer_lib.model import Transformer, TransformerConfig

BASE, LARGE, H100 = ModelSize.base(), ModelSize.llama_2_70b(), Machine.h100()
PLAIN = ModelSize(
    parameters=1001, d_model=7, d_ff=28, d_kv=7, attentions=3, feed_forwards=3,
    vocab_size=11, dropout=True,
)  # fmt: skip
MACHINE = Machine(
    operations=1e6, memory=1e3, inside=13e3, between=17e2, workers=5, reached=0.5
)


def test_the_base_model_has_the_parameters_that_the_library_builds():
    with torch.device("meta"):
        model = Transformer(TransformerConfig.base())
    assert BASE.parameters == sum(p.numel() for p in model.parameters())


def test_the_large_model_has_the_parameters_of_its_checkpoint():
    assert LARGE.parameters == 68_976_648_192


def test_two_published_runs_reached_a_quarter_to_a_half_of_what_their_gpus_can_do():
    paper = training_operations(BASE, 100_000 * 25_000) / (8 * 12 * 3600 * 9.5e12)
    llama = training_operations(LARGE, 2e12) / (1_720_320 * 3600 * 312e12)
    assert 0.25 < paper < llama < 0.5


def test_a_plain_layer_keeps_34_bytes_for_each_feature_of_a_token():
    assert kept_per_token(PLAIN) == (34 * 7 * 3, 4 * 11)
    assert kept_per_token(PLAIN, recompute=True) == (2 * 7 * 3, 4 * 11)
    bare = {**vars(PLAIN), "dropout": False}  # no masks
    assert kept_per_token(ModelSize(**bare))[0] == 32 * 7 * 3
    llama = {**bare, "d_kv": 2, "gated": True}
    layer = 2 * (4 * 7 + 2 * 2) + 2 * (2 * 7 + 4 * 28)
    assert kept_per_token(ModelSize(**llama))[0] == 3 * layer


def test_one_worker_holds_sixteen_bytes_for_each_parameter():
    held = memory(PLAIN, Split(), 13)
    assert held == {
        "weights": 2 * 1001,
        "gradients": 2 * 1001,
        "optimiser": 12 * 1001,
        "activations": 13 * sum(kept_per_token(PLAIN)),
    }


def test_data_groups_share_out_nothing_but_the_batch_unless_they_shall():
    alone, split = memory(PLAIN, Split(), 26), memory(PLAIN, Split(data=2), 26)
    assert split == {**alone, "activations": alone["activations"] / 2}


def test_a_sharded_optimiser_is_shared_out_and_the_rest_is_not():
    held = memory(PLAIN, Split(data=13, sharded="optimiser"), 26)
    assert held["optimiser"] == 12 * 1001 / 13
    assert held["weights"] == held["gradients"] == 2 * 1001


def test_what_is_sharded_altogether_is_whole_for_two_layers_at_a_time():
    held = memory(PLAIN, Split(data=13, sharded="everything"), 26)
    assert held["gradients"] == pytest.approx(2 * 1001 / 13)
    assert held["weights"] == pytest.approx(2 * 1001 / 13 + 2 * 2 * 1001 / 3)
    assert memory(PLAIN, Split(sharded="everything"), 26) == memory(PLAIN, Split(), 26)


def test_cut_matrices_and_stages_share_out_parameters():
    held = memory(PLAIN, Split(tensor=5, pipeline=3), 26)
    assert held["weights"] == pytest.approx(2 * 1001 / 15)
    assert held["optimiser"] == pytest.approx(12 * 1001 / 15)


def test_the_parts_of_a_batch_are_kept_one_at_a_time():
    once, parts = (memory(PLAIN, Split(parts=n), 26) for n in (1, 2))
    assert parts["activations"] == once["activations"] / 2


def test_a_stage_keeps_its_layers_of_as_many_parts_as_there_are_stages():
    layers, scores = kept_per_token(PLAIN)
    few, many = (memory(PLAIN, Split(pipeline=3, parts=n), 42) for n in (2, 7))
    assert few["activations"] == pytest.approx(21 * (layers * 2 / 3 + scores))
    assert many["activations"] == pytest.approx(6 * (layers + scores))


def test_the_layer_that_is_recomputed_has_all_its_activations():
    held = memory(PLAIN, Split(recompute=True), 13)["activations"]
    assert held == 13 * (2 * 7 * 3 + 4 * 11 + 34 * 7)


def test_gradients_are_sent_nearly_twice_and_sharded_weights_for_each_part():
    assert set(traffic(PLAIN, Split(), 13).values()) == {0}
    sent = traffic(PLAIN, Split(data=7, sharded="optimiser"), 13)
    assert sent == {"data": 2 * 6 / 7 * 2 * 1001, "tensor": 0, "pipeline": 0}
    split = Split(data=7, sharded="everything", parts=5)
    assert traffic(PLAIN, split, 13)["data"] == 3 * 5 * (6 / 7) * 2 * 1001


def test_cut_matrices_send_the_vectors_of_all_tokens_twice_in_each_sublayer():
    sent = traffic(PLAIN, Split(data=2, tensor=5), 26)["tensor"]
    assert sent == pytest.approx(6 * 2 * 2 * 4 / 5 * (13 * 7 * 2))


def test_stages_send_vectors_forward_and_gradients_back():
    sent = traffic(PLAIN, Split(pipeline=3), 13)
    assert sent["pipeline"] == 2 * 13 * 7 * 2


def test_the_time_of_computing_is_shared_out_evenly():
    spent = seconds(PLAIN, Split(data=5), 13, MACHINE)
    assert spent["compute"] == pytest.approx(6 * 1001 * 13 / (5 * 1e6 * 0.5))


def test_computing_layers_twice_takes_a_third_more():
    once, twice = (
        seconds(PLAIN, Split(recompute=choice), 13, MACHINE)["compute"]
        for choice in (False, True)
    )
    assert twice == pytest.approx(once * 4 / 3)


def test_a_pipeline_idles_as_its_timetable_says():
    spent = seconds(PLAIN, Split(pipeline=3, parts=7), 42, MACHINE)
    whole = spent["compute"] + spent["idle"]
    assert spent["idle"] / whole == pytest.approx((3 - 1) / (7 + 3 - 1))


@pytest.mark.parametrize(("count", "link"), [(5, 13e3), (7, 17e2)])
@pytest.mark.parametrize("way", ["pipeline", "tensor"])
def test_a_run_of_one_machine_uses_its_fast_links_and_a_larger_one_does_not(
    way, count, link
):
    # Cut matrices stay inside a machine as long as they fit, whatever the data do.
    split = Split(**{way: count}, data=2 if way == "tensor" else 1)
    spent = seconds(PLAIN, split, 26, MACHINE)[way]
    assert spent == traffic(PLAIN, split, 26)[way] / link


def test_what_is_sent_while_others_compute_counts_only_where_it_takes_longer():
    split = Split(data=7)
    short, long = (seconds(PLAIN, split, n, MACHINE) for n in (7_000_000, 7))
    assert short["data"] == 0
    sending = traffic(PLAIN, split, 7)["data"] / 17e2
    assert sum(long.values()) == pytest.approx(sending)


def test_a_thousand_gpus_are_slower_than_eight_for_the_base_model():
    eight, thousand = (
        sum(seconds(BASE, Split(data=n), 25_000, H100).values()) for n in (8, 1024)
    )
    assert thousand > eight
