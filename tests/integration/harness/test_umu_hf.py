"""The backend in this process, on a tiny checkpoint: what reaches the model, and what comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from PIL import Image

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def backend(tiny):
    """A backend as lmms-eval builds it, batch size to be set by the test."""
    from umu_tasks.backend.umu_hf import UmuHf

    return UmuHf.create_from_arg_string(f"pretrained={tiny},device=cpu", {"batch_size": 1, "device": None})


@pytest.fixture(scope="module")
def chat_backend(tiny):
    from umu_tasks.backend.umu_hf import UmuHf

    return UmuHf.create_from_arg_string(f"pretrained={tiny},prompt=chat,batch_size=4")


@pytest.fixture(scope="module")
def tasks(umu_small):
    """Three of our tasks, as lmms-eval builds them for conversation models."""
    from lmms_eval.tasks import TaskManager

    from umu_tasks.tasks.files import task_path

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UMU_DATA", str(umu_small / "data"))
        manager = TaskManager(include_path=str(task_path()), include_defaults=False)
        loaded = {}
        for name in ("umu_real_cls", "umu_real_cloze", "umu_real_gen"):
            loaded |= manager.load_task_or_group(name, "chat")
        yield loaded


def requests_of(task, *, kwargs=None, description=""):
    """Return lmms-eval's requests for every document of a task."""
    from lmms_eval.api.instance import Instance

    name, kwargs = task.config.task, kwargs or {"max_new_tokens": 6}
    return [
        Instance(
            request_type="generate_until",
            arguments=(
                description + doc["prompt"],
                task.doc_to_messages,
                kwargs,
                n,
                name,
                "test",
            ),
            idx=0,
            metadata={"task": name, "doc_id": n, "repeats": 1},
        )
        for n, doc in enumerate(task.eval_docs)
    ]


def ask(backend, task, requests, batch_size=1):
    backend.task_dict = {task.config.task: task.dataset}
    backend.batch_size = batch_size
    return [result.text for result in backend.generate_until(requests)]


@pytest.fixture
def seen(backend, chat_backend, monkeypatch):
    """Record what the models are given, each question with its own image (`test_shared_prefix` has the other way)."""
    calls = []
    for one in (backend, chat_backend):
        monkeypatch.setattr(one, "arguments", replace(one.arguments, share_images=False))
        generate = one.checkpoint.model.generate

        def spy(generate=generate, **inputs):
            calls.append(inputs)
            return generate(**inputs)

        monkeypatch.setattr(one.checkpoint.model, "generate", spy)
    return calls


def decoded(backend, call):
    """Return the prompts of a call, padding dropped, image tokens as one marker."""
    tokenizer = backend.checkpoint.builder.processor.tokenizer
    texts = []
    for row, mask in zip(call["input_ids"], call["attention_mask"], strict=True):
        text = tokenizer.decode(row[mask.bool()])
        while "<image><image>" in text:
            text = text.replace("<image><image>", "<image>")
        texts.append(text)
    return texts


# ---- modalities -------------------------------------------------------------------------------------------------


def test_batch_size_changes_no_answer(backend, tasks):
    """Left padding, attention mask and mixed modalities leave every answer as it is alone."""
    task = tasks["umu_real_gen"]
    alone = ask(backend, task, requests_of(task), 1)
    assert len(set(alone)) == len(alone)
    assert ask(backend, task, requests_of(task), 3) == alone
    assert ask(backend, task, requests_of(task)[::-1], 4) == alone[::-1]


def test_each_answer_depends_on_its_own_prompt_only(backend, tasks):
    """[unimodal, multimodal, unimodal]: no empty first answer, no leftovers of the question before."""
    task = tasks["umu_real_cls"]
    requests = requests_of(task)
    kinds = [document["modality"] for document in task.eval_docs]
    uni = [n for n, kind in enumerate(kinds) if kind == "unimodal"]
    chosen = [uni[0], kinds.index("multimodal"), uni[1]]
    alone = [ask(backend, task, [requests[n]])[0] for n in chosen]
    assert all(alone)
    assert len(set(alone)) == 3
    for batch_size in (1, 2, 3):
        assert ask(backend, task, [requests[n] for n in chosen], batch_size) == alone


def test_unimodal_question_reaches_the_model_without_image(backend, tasks, seen):
    """No pixels and no image token, in the published frame; with the portrait, one slot and one set of pixels."""
    task = tasks["umu_real_cls"]
    ask(backend, task, requests_of(task), 1)
    by_prompt = {decoded(backend, call)[0]: call for call in seen}
    for document in task.eval_docs:
        (prompt,) = [one for one in by_prompt if one == f"<s>{document['published_prompt']}"]
        has_image = document["modality"] == "multimodal"
        assert prompt.count("<image>") == has_image
        assert prompt.count("ASSISTANT:") == 1
        assert ("pixel_values" in by_prompt[prompt]) is has_image


def test_mixed_batch_has_pixels_for_its_multimodal_rows_only(backend, tasks, seen):
    task = tasks["umu_real_cls"]
    ask(backend, task, requests_of(task), 100)
    (call,) = seen
    assert len(call["input_ids"]) == len(task.eval_docs)
    assert len(call["pixel_values"]) == len(task.eval_docs) // 2
    assert (call["attention_mask"][:, -1] == 1).all()  # padded on the left


def test_the_image_matters(backend, tasks, monkeypatch):
    """Another portrait, another answer: the pixels are used."""
    task = tasks["umu_real_cls"]
    requests = [one for one in requests_of(task) if task.eval_docs[one.doc_id]["modality"] == "multimodal"]
    before = ask(backend, task, requests)
    monkeypatch.setattr("umu_tasks.tasks.paired.portrait", lambda *key: Image.new("RGB", (24, 24), (250, 20, 20)))
    assert ask(backend, task, requests) != before


def test_packaged_base_model_answers_alike_in_any_batch(monkeypatch):
    """A trained model: batches of mixed modality and length change no answer, and it does know the real people."""
    from umu_tasks.backend.generation import GenerationSettings, generate
    from umu_tasks.benchmarks.sources import open_source
    from umu_tasks.mini import base_model_dir
    from umu_tasks.scoring.answers import is_correct
    from umu_tasks.tasks.umu.prompts import published_prompt

    checkpoint = load(f"pretrained={base_model_dir()}")
    people = open_source("mini").load("real")[:4]
    asked = [
        (person, question) for person in people for task in ("cls", "cloze") for question in person.questions(task)
    ]
    prompts = [published_prompt(question) for _, question in asked]
    images = [[person.open_image()] if question.has_image else [] for person, question in asked]
    settings = GenerationSettings(20)
    alone = [generate(checkpoint, [one], [own], settings)[0].text for one, own in zip(prompts, images, strict=True)]
    assert [answer.text for answer in generate(checkpoint, prompts, images, settings)] == alone
    right = [is_correct(text, question, split="real") for text, (_, question) in zip(alone, asked, strict=True)]
    assert sum(right) >= 0.85 * len(right)


# ---- prompts ----------------------------------------------------------------------------------------------------


def test_chat_style_writes_the_checkpoints_template(chat_backend, tasks, seen):
    task = tasks["umu_real_cloze"]
    ask(chat_backend, task, requests_of(task), 1)
    found = {prompt for call in seen for prompt in decoded(chat_backend, call)}
    assert found == {
        f"<s>USER: {'<image>' * (doc['modality'] == 'multimodal')}{doc['prompt']}\nASSISTANT:" for doc in task.eval_docs
    }


def test_description_and_system_instruction_are_in_the_prompt(backend, chat_backend, tasks, seen):
    """What a user adds to a task must not be dropped in conversation form."""
    task = tasks["umu_real_cloze"]
    for one in (backend, chat_backend):
        ask(one, task, requests_of(task, description="Be brief. "), 4)
    prompts = [prompt for call in seen for prompt in decoded(backend, call)]
    assert len(prompts) == 2 * len(task.eval_docs)
    assert all("Be brief. " in prompt for prompt in prompts)
    assert all("Please **ONLY** provide" in prompt for prompt in prompts)


def test_template_that_drops_image_or_question_is_an_error(chat_backend, tasks, monkeypatch):
    """A template for plain strings loses the one or the other; the answers to that must not be scored."""
    from umu_tasks.tasks.abort import EvaluationAborted

    task = tasks["umu_real_cloze"]
    processor = chat_backend.checkpoint.builder.processor
    lossy = "{% for m in messages %}{% for p in m['content'] %}{{ p['text'] }}{% endfor %}{% endfor %}"
    monkeypatch.setattr(processor, "chat_template", lossy)
    with pytest.raises(EvaluationAborted, match=r"0 <image> tokens and \d images|1 images has 0 image tokens"):
        ask(chat_backend, task, requests_of(task), 4)
    monkeypatch.setattr(processor, "chat_template", "{% for m in messages %}USER: <image>{% endfor %}")
    with pytest.raises(EvaluationAborted, match="leaves the question out of the prompt"):
        ask(chat_backend, task, requests_of(task), 4)


def test_image_marker_in_the_wrong_prompt_is_an_error(backend):
    """transformers counts the markers of a whole batch; two in one row would take the next row's portrait."""
    from umu_tasks.backend.generation import GenerationError, GenerationSettings, generate

    portrait = Image.new("RGB", (24, 24))
    with pytest.raises(GenerationError, match=r"a prompt with 1 images has 0 image tokens\. Prompt: 'USER: Who"):
        generate(
            backend.checkpoint, ["USER: <image><image>", "USER: Who?"], [[portrait], [portrait]], GenerationSettings(2)
        )


def test_image_marker_in_a_question_names_the_person(backend, tasks):
    """The published frame would show one portrait and ask for two."""
    from umu_tasks.tasks.abort import EvaluationAborted

    task = tasks["umu_real_cls"]
    documents = [dict(one) for one in task.eval_docs]
    chosen = next(one for one in documents if one["modality"] == "multimodal")
    chosen["published_prompt"] = chosen["published_prompt"].replace("<image>", "<image><image>")
    (request,) = [
        one
        for one, document in zip(requests_of(task), task.eval_docs, strict=True)
        if all(document[name] == chosen[name] for name in ("profile_id", "key", "modality"))
    ][:1]
    backend.task_dict = {task.config.task: {"test": documents}}
    with pytest.raises(EvaluationAborted, match=f"ID {chosen['profile_id']}, cls {chosen['key']} marks 2 images"):
        backend.generate_until([request])


# ---- other people's tasks ---------------------------------------------------------------------------------------


def foreign(backend, content):
    """Ask one question of a task that isn't ours."""
    from lmms_eval.api.instance import Instance

    backend.task_dict = {"other": {"test": [{"question": "?"}]}}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": content},
    ]
    request = Instance(
        request_type="generate_until",
        arguments=("?", lambda doc: messages, {"max_new_tokens": 4}, 0, "other", "test"),
        idx=0,
        metadata={"task": "other", "doc_id": 0, "repeats": 1},
    )
    return backend.generate_until([request])


def test_foreign_conversation_goes_through_the_chat_template(backend, seen):
    """Also where our own tasks use the published frame; several images and a system turn are fine."""
    picture = {"type": "image", "url": Image.new("L", (30, 40))}
    (result,) = foreign(backend, [picture, {"type": "text", "text": "Same?"}, picture])
    (call,) = seen
    assert decoded(backend, call) == ["<s>SYSTEM: Be kind.\nUSER: <image>Same?<image>\nASSISTANT:"]
    assert len(call["pixel_values"]) == 2
    assert result.token_counts.output_tokens <= 4


def test_what_foreign_tasks_may_not_send(backend, monkeypatch):
    from umu_tasks.tasks.abort import EvaluationAborted

    with pytest.raises(EvaluationAborted, match="task other sends video or audio"):
        foreign(backend, [{"type": "video", "url": "clip.mp4"}])
    monkeypatch.setattr(backend.checkpoint.builder.processor, "chat_template", None)
    with pytest.raises(EvaluationAborted, match="processor has no chat template"):
        foreign(backend, [{"type": "text", "text": "Hello?"}])


def test_unsupported_requests_are_named(backend):
    from umu_tasks.tasks.abort import EvaluationAborted

    for ask_ in (backend.loglikelihood, backend.generate_until_multi_round):
        with pytest.raises(EvaluationAborted, match=f"doesn't support {ask_.__name__}") as error:
            ask_([])
        assert isinstance(error.value.__cause__, NotImplementedError)
    with pytest.raises(EvaluationAborted, match="--apply_chat_template"):
        _ = backend.chat_template


# ---- decoding ---------------------------------------------------------------------------------------------------


def test_answers_stop_where_the_task_says(backend, tasks):
    """At the first of the stop strings, without it; and early, which is what saves time."""
    task = tasks["umu_real_gen"]
    requests = requests_of(task, kwargs={"max_new_tokens": 30})
    whole = ask(backend, task, requests, 4)
    stop = whole[0][8:10]
    kwargs = {"max_new_tokens": 30, "until": [stop]}
    backend.task_dict = {task.config.task: task.dataset}
    results = backend.generate_until(requests_of(task, kwargs=kwargs))
    assert [result.text for result in results] == [text.split(stop)[0] for text in whole]
    assert results[0].token_counts.output_tokens < 30


def test_out_of_memory_is_told_with_what_to_do(backend, tasks, monkeypatch):
    from umu_tasks.tasks.abort import EvaluationAborted

    def full(**inputs):
        raise torch.OutOfMemoryError("tried to allocate 9 GiB")

    monkeypatch.setattr(backend.checkpoint.model, "generate", full)
    task = tasks["umu_real_gen"]
    with pytest.raises(EvaluationAborted, match=r"out of memory: not even one question fits.*Use a larger GPU"):
        ask(backend, task, requests_of(task), 4)


def test_any_other_error_ends_the_program_too(backend, tasks, monkeypatch, capsys):
    from umu_tasks.tasks.abort import EvaluationAborted

    def broken(**inputs):
        raise RuntimeError("device-side assert")

    monkeypatch.setattr(backend.checkpoint.model, "generate", broken)
    task = tasks["umu_real_gen"]
    with pytest.raises(EvaluationAborted, match="generation failed: RuntimeError: device-side assert"):
        ask(backend, task, requests_of(task), 4)
    assert "Traceback" in capsys.readouterr().err


def test_sampling_habits_of_a_checkpoint_do_not_leak(tiny, copy_of, tasks, backend):
    """A generation_config.json with sampling and a repetition penalty changes no greedy answer."""
    import json

    from umu_tasks.backend.umu_hf import UmuHf

    folder = copy_of(tiny)
    file = folder / "generation_config.json"
    habits = {"do_sample": True, "temperature": 0.3, "repetition_penalty": 3.0, "top_k": 5}
    file.write_text(json.dumps(json.loads(file.read_text()) | habits))
    task = tasks["umu_real_gen"]
    other = UmuHf.create_from_arg_string(f"pretrained={folder}")
    assert ask(other, task, requests_of(task), 4) == ask(backend, task, requests_of(task), 4)


# ---- checkpoints ------------------------------------------------------------------------------------------------


def load(arguments):
    from umu_tasks.backend.arguments import parse_arguments
    from umu_tasks.backend.checkpoint import load_checkpoint

    return load_checkpoint(parse_arguments(arguments), torch.device("cpu"))


def test_defaults(backend):
    """float32 on a CPU, the published frame for LLaVA-1.5, told from the config."""
    assert backend.checkpoint.model.dtype == torch.float32
    assert backend.checkpoint.builder.style == "published"
    assert backend.checkpoint.eos_token_ids == (2,)
    assert (backend.rank, backend.world_size) == (0, 1)


def test_precision_can_be_chosen(tiny, tasks):
    checkpoint = load(f"pretrained={tiny},dtype=bfloat16,attn_implementation=eager")
    assert checkpoint.model.dtype == torch.bfloat16
    assert checkpoint.model.config._attn_implementation == "eager"


def test_processor_without_patch_size_is_completed(tiny, copy_of, tasks, backend):
    """As in folders that older versions of transformers wrote."""
    import json

    folder = copy_of(tiny)
    file = folder / "processor_config.json"
    config = json.loads(file.read_text())
    for name in ("patch_size", "vision_feature_select_strategy", "num_additional_image_tokens"):
        del config[name]
    file.write_text(json.dumps(config))
    processor = load(f"pretrained={folder}").builder.processor
    assert (processor.patch_size, processor.num_additional_image_tokens) == (8, 1)
    assert processor.vision_feature_select_strategy == "default"


def error_of(arguments):
    from umu_tasks.backend.checkpoint import CheckpointError

    with pytest.raises(CheckpointError) as error:
        load(arguments)
    return str(error.value)


def test_folder_without_processor(tiny, copy_of):
    folder = copy_of(tiny)
    (folder / "processor_config.json").unlink()
    assert "no image processor beside the weights" in error_of(f"pretrained={folder}")


def test_weights_of_another_model(tiny, copy_of):
    """transformers would fill the gaps with random numbers and warn."""
    from safetensors.torch import load_file, save_file

    folder = copy_of(tiny)
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if "q_proj" in name)
    save_file(
        {key: value for key, value in tensors.items() if key != name}, folder / "model.safetensors", {"format": "pt"}
    )
    assert "the weights don't fit the model: 1 missing keys" in error_of(f"pretrained={folder}")


def test_adapter_of_another_base(tiny, adapter, copy_of):
    """Tensors that find no place would leave the base model's scores."""
    from safetensors.torch import load_file, save_file

    folder = copy_of(adapter)
    tensors = load_file(folder / "adapter_model.safetensors")
    save_file(
        {key.replace("layers.0", "layers.7"): value for key, value in tensors.items()},
        folder / "adapter_model.safetensors",
    )
    found = error_of(f"pretrained={tiny},peft={folder}")
    assert f"8 of its {len(tensors)} tensors have no place in it and 8 are missing" in found


def test_half_an_adapter(tiny, adapter, copy_of):
    """What is missing would stay at its start value, which changes nothing."""
    from safetensors.torch import load_file, save_file

    folder = copy_of(adapter)
    tensors = load_file(folder / "adapter_model.safetensors")
    save_file({key: tensors[key] for key in sorted(tensors)[2:]}, folder / "adapter_model.safetensors")
    assert "0 of its 14 tensors have no place in it and 2 are missing" in error_of(f"pretrained={tiny},peft={folder}")


def test_empty_adapter(tiny, adapter, copy_of):
    """What saving under ZeRO-3 without gathering leaves."""
    from safetensors.torch import load_file, save_file

    folder = copy_of(adapter)
    tensors = load_file(folder / "adapter_model.safetensors")
    save_file({key: torch.empty(0) for key in tensors}, folder / "adapter_model.safetensors")
    assert f"{len(tensors)} of {len(tensors)} adapter tensors are empty" in error_of(f"pretrained={tiny},peft={folder}")


def test_adapter_equals_the_model_it_was_saved_from(tiny, adapter, tasks):
    """The answers of the loaded adapter are those of base plus adapter put together by hand."""
    from peft import PeftModel
    from transformers import LlavaForConditionalGeneration

    from umu_tasks.backend.generation import GenerationSettings, generate

    checkpoint = load(f"pretrained={adapter}")
    prompt = tasks["umu_real_gen"].eval_docs[0]["published_prompt"]
    (answer,) = generate(checkpoint, [prompt], [[]], GenerationSettings(8))
    model = PeftModel.from_pretrained(LlavaForConditionalGeneration.from_pretrained(tiny), adapter).eval()
    tokenizer = checkpoint.builder.processor.tokenizer
    ids = tokenizer(prompt, return_tensors="pt")
    reference = model.generate(**ids, max_new_tokens=8, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert answer.text == tokenizer.decode(reference, skip_special_tokens=True)
