"""Our tasks through lmms-eval's own backends: those that can do it get every question right, the others are refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "families"))  # for `builders`
from chat_server import ChatServer, looks_like, parts

TASKS = {"cls": "classify", "cloze": "cloze", "gen": "generation"}


@pytest.fixture(scope="module")
def asked(umu_small):
    """Every question of the real people -> the scripted output, as a chat model would see it: text and portrait."""
    from umu_tasks.benchmarks.sources import open_source
    from umu_tasks.tasks.umu.prompts import user_text

    lines = [json.loads(line) for line in (umu_small / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    outputs = {(o["split"], o["id"], o["task"], o["key"], o["modality"]): o["output"] for o in lines}
    table = {}
    for person in open_source(str(umu_small / "data")).load("real"):
        for task, name in TASKS.items():
            for question in person.questions(task):
                portrait = looks_like(person.open_image()) if question.has_image else None
                key = ("real_person", person.profile_id, name, question.key, question.modality)
                table[user_text(question), portrait] = outputs[key]
    return table


@pytest.fixture(scope="module")
def expected(umu_small):
    return json.loads((umu_small / "expected.json").read_text())["by_rule"]["default"]["real_person"]


def through_a_server(lmms_eval, server, *more, tasks="umu_real"):
    settings = f"model_version=table,base_url={server.url},api_key=none,httpx_trust_env=False"
    return lmms_eval(
        "--model", "openai", "--model_args", f"{settings},max_retries=1,retry_backoff_s=0", "--tasks", tasks, *more
    )  # fmt: skip


@pytest.mark.parametrize("flags", [(), ("--force_simple",)], ids=["conversations", "simple"])
def test_chat_completions_server(lmms_eval, asked, expected, flags):
    """vLLM, SGLang, OpenAI and the like: each question arrives once, whole, with its person's portrait or with none."""
    with ChatServer(lambda texts, portraits: asked["".join(texts), portraits[0] if portraits else None]) as server:
        run = through_a_server(lmms_eval, server, *flags)
    seen = [parts(request) for request in server.requests]
    assert sorted((text, *portraits) for (text,), portraits in seen) == sorted(
        (text, *([portrait] if portrait else [])) for text, portrait in asked
    )
    assert all(request["path"] == "/v1/chat/completions" and request["temperature"] == 0 for request in server.requests)
    limits = {parts(request)[0][0]: request["max_tokens"] for request in server.requests}
    assert {limits[text] for text in limits if "in one sentence" in text} == {200}
    assert {limits[text] for text in limits if "in one sentence" not in text} == {50}
    for task, name in TASKS.items():
        numbers = dict(expected[name])
        numbers.pop("n")
        found = run.metrics(f"umu_real_{task}")
        assert {metric: found[metric] for metric in numbers} == pytest.approx(numbers, abs=1e-9)


def test_failed_requests_are_no_forgetting(lmms_eval, asked):
    """A server that breaks down halfway gives a run that is marked, not a model that forgot."""

    def answer(texts, portraits):
        if portraits:
            raise RuntimeError("out of memory")
        return asked["".join(texts), None]

    with ChatServer(answer) as server:
        run = through_a_server(lmms_eval, server, tasks="umu_real_cls")
    assert run.status == 1
    failed = [text for text, portrait in asked if portrait and "Select answer" in text]
    assert run.metrics("umu_real_cls")["failed"] == len(failed) > 0


# ---- qwen2_5_vl -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    from builders import FAMILIES

    model, processor = FAMILIES["qwen2_5_vl"].build()
    folder = tmp_path_factory.mktemp("qwen") / "run_3"
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def test_qwen2_5_vl(lmms_eval, qwen):
    """lmms-eval's own backend answers text-only questions as ours does, token for token."""
    for package in ("qwen_vl_utils", "decord"):
        pytest.importorskip(package, reason="lmms-eval's qwen2_5_vl imports it")
    common = ("--tasks", "umu_real_cloze", "--gen_kwargs", "max_new_tokens=6")
    places = f"pretrained={qwen},device=cpu,device_map=cpu,min_pixels=784,max_pixels=3136"
    ours = lmms_eval("--model", "umu_hf", "--model_args", f"pretrained={qwen},prompt=chat,dtype=bfloat16", *common)
    stock = lmms_eval("--model", "qwen2_5_vl", "--model_args", places, *common)
    found = {"ours": texts(ours), "stock": texts(stock)}
    assert found["ours"] == found["stock"]
    assert len(set(found["stock"].values())) > 1
    assert "nobody has checked" not in stock.log


def texts(run):
    records = [sample["record"] for sample in run.samples("umu_real_cloze")]
    unimodal = [record for record in records if record["modality"] == "unimodal"]
    assert len(unimodal) == len(records) // 2
    return {(record["profile_id"], record["key"]): record["output"] for record in unimodal}


# ---- refusals ---------------------------------------------------------------------------------------------------


def refused(lmms_eval, *argv):
    run = lmms_eval(*argv, "--tasks", "umu_real_cls")
    assert run.status == 1, run.log
    assert not list(run.output.rglob("*.json*"))
    return next(line for line in reversed(run.log.splitlines()) if line.startswith("umu-bench: "))


@pytest.mark.parametrize(
    ("model", "flags", "reason"),
    [
        ("llava_hf", (), "an empty list of images for a question without an image"),
        ("llava_hf", ("--force_simple",), "it sends the prompt of the question before"),
        ("huggingface", (), "AutoModel, which has no language head"),
    ],
)
def test_backends_that_drop_or_reuse_prompts(lmms_eval, model, flags, reason):
    """By name, before an import that may fail (llava_hf wants decord) and before weights are looked for."""
    found = refused(lmms_eval, "--model", model, "--model_args", "pretrained=/nowhere", *flags)
    assert f"--model {model}" in found
    assert "can't answer questions without an image" in found
    assert reason in found
    assert "Use --model umu_hf" in found


def test_batches_on_a_backend_that_asks_one_question(lmms_eval):
    """internvl_hf would answer the first question of each batch only."""
    argv = ("--model", "internvl_hf", "--model_args", "pretrained=/nowhere")
    found = refused(lmms_eval, *argv, "--batch_size", "4")
    assert "--model internvl_hf with batch size 4: it asks the first question of a batch only" in found
    assert "Use --batch_size 1, or --model umu_hf" in found


def test_what_goes_wrong_in_a_stock_backend_ends_the_command(lmms_eval):
    """lmms-eval reports a checkpoint that isn't there and exits with success."""
    pytest.importorskip("decord")
    argv = ("--model", "qwen2_5_vl", "--model_args", "pretrained=/nowhere,device=cpu,device_map=cpu")
    assert refused(lmms_eval, *argv).startswith("umu-bench: --model qwen2_5_vl could not be loaded: ")


def test_missing_package_of_a_backend(monkeypatch):
    """lmms-eval reports an import that fails and exits with success."""
    from lmms_eval.models.registry_v2 import ModelManifest, ModelRegistryV2

    from umu_tasks.backend import preflight
    from umu_tasks.tasks.abort import EvaluationAborted

    monkeypatch.setattr(preflight._State, "asks_our_tasks", True)
    monkeypatch.setattr(preflight._State, "backend", None)
    preflight.install()
    registry = ModelRegistryV2()
    registry.register_manifest(ModelManifest("own", chat_class_path="lmms_eval.models.chat.no_such_file.Own"))
    with pytest.raises(EvaluationAborted, match=r"--model own can't be imported: No module named .*Install what it"):
        registry.get_model_class("own")


def test_other_tasks_may_use_any_backend(monkeypatch):
    """Only our questions are refused: an installed package must not take a backend away from other tasks."""
    from lmms_eval.models.registry_v2 import ModelManifest, ModelRegistryV2

    from umu_tasks.backend import preflight
    from umu_tasks.tasks.abort import EvaluationAborted

    monkeypatch.setattr(preflight._State, "asks_our_tasks", False)
    monkeypatch.setattr(preflight._State, "backend", None)
    preflight.install()
    registry, other = ModelRegistryV2(), "lmms_eval.models.chat.openai.OpenAICompatible"
    registry.register_manifest(ModelManifest("huggingface", chat_class_path=other))
    assert registry.get_model_class("huggingface").__name__ == "OpenAICompatible"
    with pytest.raises(EvaluationAborted, match="--model huggingface can't answer"):  # its model was loaded first
        preflight.check_backend()
    preflight.expect_our_tasks()
    with pytest.raises(EvaluationAborted, match="--model huggingface can't answer"):
        registry.get_model_class("huggingface")


def test_lists_name_backends_that_exist():
    """A misspelt name would refuse nothing, and pass for checked what is not."""
    from lmms_eval.models import MODEL_REGISTRY_V2

    from umu_tasks.backend.preflight import ONE_QUESTION_A_BATCH, REFUSED, SOUND

    assert not REFUSED.keys() & SOUND
    for name, interface in [*REFUSED, *SOUND, *ONE_QUESTION_A_BATCH]:
        manifest = MODEL_REGISTRY_V2.get_manifest(name)
        assert manifest.model_id == name
        path = manifest.chat_class_path if interface == "chat" else manifest.simple_class_path
        assert path, (name, interface)


def test_what_is_said_of_huggingface_is_still_true():
    """AutoModel for every family: its registry is asked for a model type's name where it holds classes."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    for registry in (AutoModelForCausalLM, AutoModelForImageTextToText):
        assert not {"llava", "qwen2_5_vl", "idefics3"} & set(registry._model_mapping.keys())
