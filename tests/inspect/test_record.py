"""Recording and editing: what is seen is what was computed, and nothing stays behind."""

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_BERT, random_model, sequences
from glassformer.inspect.laws import pad, run
from inspect_cases import small


@pytest.fixture
def bert():
    return random_model("bert", None, SMALL_BERT)


def batch(model):
    ids, mask = pad(sequences(), model)
    return {"input_ids": ids, "attention_mask": mask}


def test_berts_named_values_by_hand(bert):
    """hidden_states[0] is the embedding output, [-1] the last hidden state, the pooler tanh(dense(first token))."""
    inputs = batch(bert)
    with torch.no_grad(), gf.record(bert, "*") as seen:
        out = bert(**inputs)
    ids, table = inputs["input_ids"], bert.embeddings
    total = table.token.weight[ids] + table.segment.weight[0] + table.position.weight[: ids.shape[1]]
    centred = total - total.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + bert.config.layer_norm_eps).sqrt()
    assert_close(seen.hidden_states[0], scaled * table.norm.weight + table.norm.bias)
    assert_close(seen.hidden_states[-1], out.last_hidden_state, atol=0, rtol=0)
    assert len(seen.hidden_states) == 1 + SMALL_BERT["num_hidden_layers"]
    dense = bert.pooler.dense
    with torch.no_grad():
        assert_close(out.pooler_output, torch.tanh(out.last_hidden_state[:, 0] @ dense.weight.T + dense.bias))


def test_masked_lm_scores_are_the_head_on_the_last_hidden_state():
    model = random_model("bert", "fill-mask", SMALL_BERT)
    with torch.no_grad(), gf.record(model, "*") as seen:
        logits = model(**batch(model)).logits
    head = model.head
    x = torch.nn.functional.gelu(seen.hidden_states[-1] @ head.dense.weight.T + head.dense.bias)
    x = torch.nn.functional.layer_norm(x, (12,), head.norm.weight, head.norm.bias, model.config.layer_norm_eps)
    assert_close(logits, x @ model.embeddings.token.weight.T + head.bias)


def test_one_attention_head_by_hand(bert):
    inputs = batch(bert)
    with torch.no_grad(), gf.record(bert, "*") as seen:
        bert(**inputs)
    query, key, value = (seen[f"layers.1.attention.{part}"].unflatten(-1, (3, 4)) for part in ("query", "key", "value"))
    scores = torch.einsum("bthk,bshk->bhts", query, key) / 4**0.5
    assert_close(seen["layers.1.attention.scores"], scores)
    pattern = scores.masked_fill(inputs["attention_mask"][:, None, None] == 0, float("-inf")).softmax(-1)
    assert_close(seen["layers.1.attention.pattern"], pattern)
    assert_close(seen["layers.1.attention.context"], torch.einsum("bhts,bshk->bthk", pattern, value))


@pytest.mark.parametrize(("model_type", "head"), CASES)
def test_every_family_can_be_recorded(model_type, head):
    model = small(model_type, head)
    ids, mask = pad(sequences(), model)
    with gf.record(model, "*") as seen:
        run(model, ids, mask)
    assert seen
    if any("attention" in name for name, _ in model.named_modules()):
        assert seen.attentions
        for pattern in seen.attentions:
            sums = pattern.sum(-1)  # (B, H, T)
            if sums.shape[-1] == mask.shape[1]:  # in a window, padding may have nothing to look at
                sums = sums.movedim(1, -1)[mask.bool()]
            assert_close(sums, torch.ones_like(sums))


def test_zeroing_a_head_equals_zeroing_its_columns_of_the_output(bert):
    inputs = batch(bert)

    def without_head(mixed):
        return mixed * torch.tensor([1.0, 0.0, 1.0])[:, None]

    with torch.no_grad():
        with gf.record(bert, edit={"layers.1.attention.context": without_head}):
            edited = bert(**inputs).last_hidden_state
        bert.layers[1].attention.output.weight[:, 4:8] = 0.0
        assert_close(edited, bert(**inputs).last_hidden_state)


def test_an_edited_pattern_changes_what_follows_and_is_what_is_seen(bert):
    inputs = batch(bert)
    with torch.no_grad():
        plain = bert(**inputs).last_hidden_state
        with gf.record(bert, "layers.0.attention.pattern", edit={"layers.0.*pattern": torch.zeros_like}) as seen:
            edited = bert(**inputs).last_hidden_state
        again = bert(**inputs).last_hidden_state
    assert not seen["layers.0.attention.pattern"].any()
    assert (plain - edited).abs().max() > 1e-3
    assert_close(again, plain, atol=0, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wrapper", "in place"])
def test_compiled_models_are_heard(bert, how):
    compiled = torch.compile(bert, backend="eager") if how == "wrapper" else bert
    if how == "in place":
        bert.compile(backend="eager")
    inputs = batch(bert)
    with torch.no_grad():
        plain = compiled(**inputs).last_hidden_state
        with gf.record(compiled, "layers.*.attention.pattern") as seen:
            recorded = compiled(**inputs).last_hidden_state
        after = compiled(**inputs).last_hidden_state
    assert sorted(seen) == [f"layers.{number}.attention.pattern" for number in range(2)]
    assert_close(recorded, plain, atol=1e-5, rtol=1e-5)
    assert_close(after, plain)


def test_hooks_are_removed_even_when_the_model_fails(bert):
    with pytest.raises(ValueError, match="a token has the id 1000000"), gf.record(bert, "*"):
        bert(input_ids=torch.tensor([[10**6]]))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in bert.modules())


def test_the_last_call_is_kept(bert):
    with torch.no_grad(), gf.record(bert, "embeddings") as seen:
        bert(input_ids=torch.tensor([[5, 6, 7]]))
        bert(input_ids=torch.tensor([[5, 6]]))
    assert seen["embeddings"].shape == (1, 2, 12)


def test_gradients_flow_through_what_is_recorded(bert):
    with gf.record(bert, "layers.0.attention.pattern") as seen:
        bert(input_ids=torch.tensor([[5, 6, 7]])).last_hidden_state.sum().backward()
    assert seen["layers.0.attention.pattern"].requires_grad


def test_hidden_states_say_what_they_lack():
    model = random_model("gpt2", None, {"vocab_size": 41, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 40})
    with torch.no_grad():
        with gf.record(model, ["embeddings", "layers*"]) as seen:
            model(input_ids=torch.tensor([[5, 6, 7]]))
        with pytest.raises(ValueError, match="needs these recorded as well: final_norm"):
            seen.hidden_states  # noqa: B018
        with gf.record(model, "*") as seen:
            out = model(input_ids=torch.tensor([[5, 6, 7]]))
    assert_close(seen.hidden_states[-1], out.last_hidden_state)


def test_the_two_sides_of_a_shared_embedding_have_names_of_their_own():
    model = small("marian", "text2text-generation")
    ids, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[3, 4]])
    with torch.no_grad(), gf.record(model, "*.embeddings.token") as seen:
        model(input_ids=ids, decoder_input_ids=target)
    assert seen["encoder.embeddings.token"].shape[1] == 4
    assert seen["decoder.embeddings.token"].shape[1] == 2


def test_a_hook_of_any_kind_is_heard(bert):
    heard = []
    handle = bert.layers[0].attention.pattern.register_forward_pre_hook(lambda *_: heard.append(1))
    bert(input_ids=torch.tensor([[5, 6]]))
    handle.remove()
    assert heard == [1]


def test_wrong_names_and_edits_are_explained(bert):
    with pytest.raises(ValueError, match=r"no module is called 'layers.0.attention.patern'; near it: layers.0"):
        gf.record(bert, "layers.0.attention.patern").__enter__()
    with gf.record(bert, "embeddings") as seen, pytest.raises(KeyError, match="was not recorded"):
        seen["layers.0"]
    with (
        pytest.raises(ValueError, match=r"must return a tensor of shape \(1, 2, 12\)"),
        gf.record(bert, edit={"embeddings": lambda x: x[:, :1]}),
    ):
        bert(input_ids=torch.tensor([[5, 6]]))


def test_a_name_of_before_is_taken_with_a_warning():
    model = small("gpt2", "text-generation")
    old, now = "layers.0.attention.mixed", "layers.0.attention.context"
    with (
        pytest.warns(DeprecationWarning, match=f"{old} is called {now} now") as told,
        gf.record(model, old, edit={old: torch.tanh}) as seen,
    ):
        model(**batch(model))
    assert list(seen) == [now]
    for look in (lambda: seen[old], lambda: seen.get(old), lambda: seen.calls(old)[0]):
        with pytest.warns(DeprecationWarning, match=now) as more:
            assert_close(look(), seen[now])
        told.list.extend(more)
    assert [one.filename for one in told] == [__file__] * 5, "each names the user's own line"
