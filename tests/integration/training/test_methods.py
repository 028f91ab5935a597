"""Every objective on a real, tiny model: the direction it moves in, how its rows add up, and a run of the script."""

from __future__ import annotations

import copy
import dataclasses
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from umu_trainers import objectives, unlearn
from umu_trainers.collator import Collator
from umu_trainers.config import UnlearnArguments, parse
from umu_trainers.data import all_rows, load_refusals, rows_by_role, unlearn_sets
from umu_trainers.encoding import RowEncoder
from umu_trainers.outputs import run_pass
from umu_trainers.trainer import UnlearnTrainer

METHODS = objectives.available()
KWARGS = {"rmu": '{"hidden_layer": 1, "steering": 3.0}'}


def own_flags(method):
    return {"method": method, "method_kwargs": KWARGS.get(method)}


class Pieces:
    """What `UnlearnTrainer.step_loss` needs of a trainer, without the rest: a pretended number of processes, and a
    reference that is a copy of the model, moved a little so that no log-ratio is 0."""

    def __init__(self, args, checkpoint, builder):
        from transformers import LlavaForConditionalGeneration

        from umu_tasks.benchmarks.sources import open_source

        self.args = args
        self.model = LlavaForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32).eval()
        self.frozen = copy.deepcopy(self.model).requires_grad_(False)
        generator = torch.Generator().manual_seed(0)
        for parameter in self.frozen.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
        objective = args.objective()
        self.forget, self.retain = unlearn_sets(open_source(args.data), args)
        refusals = load_refusals() if "refusal" in objective.roles else []
        from umu_trainers.collator import fillers

        roles = rows_by_role(objective.roles, self.forget, self.retain, refusals)
        self.plan = unlearn.make_plan(args, self.forget, self.retain, refusals)
        self.plan.set_epoch(0)
        self.trainer = UnlearnTrainer.__new__(UnlearnTrainer)
        vars(self.trainer).update(
            args=args, objective=objective, weights=args.weights, reference=self.reference, bound=None, stored=None,
            data_collator=Collator(RowEncoder(builder), fillers(roles)),
        )  # fmt: skip

    @contextmanager
    def reference(self, model):
        with torch.no_grad():
            yield self.frozen

    def gradient(self, items, *, micro, processes=1):
        """Gradient of one step over `items`, in micro-batches of `micro` on each of `processes`; and its loss."""
        batches = [self.trainer.data_collator(items[i : i + micro]) for i in range(0, len(items), micro)]
        counts = {
            f"{kind}_{half}": sum(batch["counts"][half][kind] for batch in batches)
            for half in self.args.halves
            for kind in ("rows", "tokens")
        }
        self.trainer.accelerator = SimpleNamespace(num_processes=processes)
        self.model.zero_grad()
        total = 0.0
        for batch in batches:
            loss, _ = self.trainer.step_loss(self.model, batch, counts)
            (loss / processes).backward()  # processes' gradients are averaged
            total += loss.item() / processes
        return total, {name: one.grad.clone() for name, one in self.model.named_parameters() if one.grad is not None}


@pytest.fixture
def pieces(checkpoint, builder, flags):
    def build(**changes):
        return Pieces(parse(UnlearnArguments, "", flags(**changes)), checkpoint, builder)

    return build


@pytest.mark.parametrize("method", METHODS)
def test_a_step_does_not_depend_on_how_its_rows_are_split(pieces, method):
    """4 x 1 = 2 x 2 = 1 x 4 = 2 processes x 2: a method must not change with the number of GPUs or micro-batches.

    Rows of both halves and of different length; the last item has one half only, so pieces differ in their counts.
    """
    own = pieces(**own_flags(method), gamma=0.5)
    items = [*own.plan.items[:4]]
    items[3] = {name: row for name, row in items[3].items() if name.endswith("_mul")}
    whole, gradient = own.gradient(items, micro=4)
    for micro, processes in ((2, 1), (1, 1), (2, 2), (1, 4)):
        value, split = own.gradient(items, micro=micro, processes=processes)
        assert value == pytest.approx(whole, rel=1e-4, abs=1e-5)
        for name, one in split.items():
            torch.testing.assert_close(one, gradient.get(name, torch.zeros_like(one)), rtol=1e-3, atol=1e-5)


def logps(model, collator, rows):
    with torch.no_grad():
        return torch.cat([run_pass(model, collator.rows_batch(own)).logps for own in rows.values()])


@pytest.fixture(scope="module")
def taught(checkpoint, builder, rows):
    """Weights of a model that knows the forget answers: what is forgotten must have been there."""
    from transformers import LlavaForConditionalGeneration

    model = LlavaForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32)
    collator = Collator(RowEncoder(builder), {f"forget_{half}": own[0] for half, own in rows.items()})
    batches = [collator.rows_batch(own) for own in rows.values()]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(80):
        loss = sum(run_pass(model, batch).nll for batch in batches)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 3, "nats a token, both halves together"
    return model.state_dict()


@pytest.mark.parametrize("method", METHODS)
def test_one_small_step_moves_the_likelihoods_the_right_way(pieces, taught, method):
    """A sign error would teach what is to be forgotten. The first step of a run: the model is the reference."""
    own = pieces(**own_flags(method), gamma=0.0)
    own.model.load_state_dict(taught)
    own.frozen.load_state_dict(taught)
    collator, items = own.trainer.data_collator, own.plan.items
    refusals = {half: [row.answered(own.plan.refusal(row)) for row in rows] for half, rows in own.forget.rows.items()
                } if method in ("po", "dpo") else {}  # fmt: skip
    before = logps(own.model, collator, own.forget.rows).sum()
    refused_before = logps(own.model, collator, refusals).sum() if refusals else None
    loss, gradient = own.gradient(items, micro=len(items))
    norm = torch.stack([one.norm() for one in gradient.values()]).norm()
    with torch.no_grad():
        for name, parameter in own.model.named_parameters():
            if name in gradient:
                parameter -= 0.01 * gradient[name] / norm
    if method != "wga":  # whose weights count as constants, so that its value may rise as they fall
        assert own.gradient(items, micro=len(items))[0] < loss
    if refusals:
        assert logps(own.model, collator, refusals).sum() > refused_before
    if method not in ("po", "rmu"):  # PO says nothing of the answer; RMU works on activations
        assert logps(own.model, collator, own.forget.rows).sum() < before


@pytest.mark.parametrize("method", METHODS)
def test_padding_side_changes_no_row(pieces, method, builder):
    """What a row gets as its loss does not depend on where its batch is padded."""
    own = pieces(**own_flags(method))
    collator = own.trainer.data_collator
    layer = own.trainer.objective.hidden_layer
    for half in ("uni", "mul"):
        rows = own.forget.rows[half][:3]
        right = run_pass(own.model, collator.rows_batch(rows), hidden_layer=layer)
        for index, row in enumerate(rows):
            batch = collator.rows_batch([row])
            inputs = batch["inputs"]
            pad = torch.full((1, 3), builder.pad_token_id)
            inputs["input_ids"] = torch.cat([pad, inputs["input_ids"]], dim=1)
            inputs["attention_mask"] = torch.cat([torch.zeros_like(pad), inputs["attention_mask"]], dim=1)
            inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
            left = run_pass(own.model, {**batch, "keep": batch["keep"] + 3}, hidden_layer=layer)
            torch.testing.assert_close(left.row_nll[0], right.row_nll[index], rtol=1e-4, atol=1e-4)
            if layer is not None:
                torch.testing.assert_close(
                    left.hidden_states[0], right.hidden_states[index][right.answered[index]], rtol=1e-4, atol=1e-4
                )


@pytest.mark.parametrize("method", METHODS)
def test_the_script_runs_every_method(flags, record, tmp_path, method):
    """Two steps with a fresh adapter, whose reference is the model with it off; both halves are logged."""
    unlearn.main(flags(**own_flags(method), use_lora=True, lora_r=2, gamma=0.5, max_steps=2))
    log = record(tmp_path / "run")["result"]["log"]
    assert log[0]["loss/uni"] == pytest.approx(log[0]["loss"] - log[0]["loss/mul"], abs=2e-2)
    assert record(tmp_path / "run")["result"]["steps"] == 2


def test_first_npo_loss_of_a_run_is_2_over_beta_ln_2(flags, record, tmp_path):
    unlearn.main(flags(method="npo", npo_beta=0.5, use_lora=True, lora_r=2, lora_dropout=0.0, max_steps=1))
    first = record(tmp_path / "run")["result"]["log"][0]
    for half in ("uni", "mul"):
        assert first[f"loss/{half}"] == pytest.approx(4 * 0.693147, abs=1e-4)


@pytest.mark.parametrize("half", ["uni", "mul"])
def test_retain_rows_of_both_modalities_beside_one(pieces, half):
    """`retain_modality: mix` holds the other modality too; how a step is split still changes nothing."""
    own = pieces(method="gd", modality=half, retain_modality="mix")
    for item in own.plan.items[:6]:
        assert item.keys() == {f"forget_{half}", "retain_uni", "retain_mul"}
    whole, gradient = own.gradient(own.plan.items[:4], micro=4)
    for micro, processes in ((1, 1), (2, 2)):
        value, split = own.gradient(own.plan.items[:4], micro=micro, processes=processes)
        assert value == pytest.approx(whole, rel=1e-4)
        for name, one in split.items():
            torch.testing.assert_close(one, gradient[name], rtol=1e-3, atol=1e-5)


def test_retain_mix_loss_is_the_mean_over_both(pieces):
    own = pieces(method="gd", modality="uni", retain_modality="mix", gamma=2.0)
    items = own.plan.items[:3]
    collator = own.trainer.data_collator
    with torch.no_grad():
        nll = {name: run_pass(own.model, collator.rows_batch([item[name] for item in items])).nll.item()
               for name in items[0]}  # fmt: skip
    value, _ = own.gradient(items, micro=3)
    assert value == pytest.approx((nll["retain_uni"] + nll["retain_mul"]) - nll["forget_uni"], rel=1e-4)


def test_sequential_phases_train_one_set_at_a_time(flags, record, tmp_path):
    """6 forget rows a half in batches of 4, then 9 retain rows: 2 + 3 steps an epoch, each with one term only."""
    unlearn.main(flags(method="gd", phases="sequential", num_train_epochs=2))
    log = [one for one in record(tmp_path / "run")["result"]["log"] if "loss" in one]
    seen = ["forget" if "nll/forget_uni" in one else "retain" for one in log]
    assert seen == 2 * (2 * ["forget"] + 3 * ["retain"])
    for one, role in zip(log, seen, strict=True):
        sign = -1 if role == "forget" else 1
        assert one["loss"] == pytest.approx(sign * (one[f"nll/{role}_uni"] + one[f"nll/{role}_mul"]), rel=1e-2)


def test_only_the_multimodal_gradient_is_clipped(pieces, flags, weights, tmp_path):
    """Published NPO clips between its two backward calls: the unimodal gradient comes on top unclipped."""
    own = pieces(method="ga", alpha=1.0, beta=0.0)
    items = own.plan.items[:4]
    _, multimodal = own.gradient(items, micro=4)
    own.trainer.weights = {"mul": 0.0, "uni": 1.0}
    _, unimodal = own.gradient(items, micro=4)
    norm = torch.stack([one.norm() for one in multimodal.values()]).norm()
    own.trainer.weights = {"mul": 1.0, "uni": 1.0}
    own.args.clip_multimodal = 0.5 * norm.item()
    own.trainer.model = own.model
    batch = own.trainer.data_collator(items)
    own.trainer.accelerator = SimpleNamespace(
        num_processes=1,
        backward=lambda loss: loss.backward(retain_graph=True),
        clip_grad_norm_=torch.nn.utils.clip_grad_norm_,
    )
    own.model.zero_grad()
    counts = {f"{kind}_{half}": batch["counts"][half][kind] for half in ("uni", "mul") for kind in ("rows", "tokens")}
    own.trainer.step_loss(own.model, batch, counts)[0].backward()
    for name, one in own.model.named_parameters():
        if one.grad is not None:
            torch.testing.assert_close(one.grad, 0.5 * multimodal[name] + unimodal[name], rtol=1e-3, atol=1e-5)


def test_a_step_of_multimodal_rows_alone_is_clipped_too(flags, monkeypatch):
    """Of uneven halves the longer one has steps of its own; unclipped, these would be the largest of the run."""
    from transformers import TrainerCallback

    norms = []

    class Norm(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
            gradients = [one.grad for one in model.parameters() if one.grad is not None]
            norms.append(torch.stack([one.norm() for one in gradients]).norm().item())

    def fewer_texts(source, args):
        forget, retain = unlearn_sets(source, args)
        return dataclasses.replace(forget, rows={"uni": forget.rows["uni"][:1], "mul": forget.rows["mul"]}), retain

    monkeypatch.setattr(unlearn, "unlearn_sets", fewer_texts)
    build = unlearn.build_trainer
    monkeypatch.setattr(unlearn, "build_trainer", lambda *a: add(build(*a), Norm()))
    settings = {"method": "ga", "clip_multimodal": 0.01, "max_grad_norm": 0, "per_device_train_batch_size": 1}
    unlearn.main(flags(**settings))
    assert len(norms) == 6
    assert [norm > 0.02 for norm in norms] == [True] + [False] * 5, "the first step has the text row"


def add(trainer, callback):
    trainer.add_callback(callback)
    return trainer


def test_hidden_layer_beyond_the_decoder_is_named(pieces):
    own = pieces(method="rmu", method_kwargs='{"hidden_layer": 3}')
    with pytest.raises(ValueError, match="hidden_layer 3: this model's decoder has layers 1 to 2"):
        own.gradient(own.plan.items[:2], micro=2)


def test_a_refusal_too_long_for_max_length_stops_at_the_start(flags, builder, data):
    encoder = RowEncoder(builder)
    args = parse(UnlearnArguments, "", flags(method="po"))
    from umu_tasks.benchmarks.sources import open_source

    forget, retain = unlearn_sets(open_source(str(data)), args)
    longest = encoder.encode_all(all_rows([forget, retain]), quiet=True)
    with pytest.raises(ValueError, match=f"tokens, image tokens included, but max_length is {longest}"):
        unlearn.main(flags(method="po", max_length=longest))
