"""Stands in for `python -m umu_trainers.unlearn` and `python -m lmms_eval`: same files, same lines, no model.

The forget score is 1 - learning_rate. Above 0.9 the model's outputs are empty (invalid); a learning_rate of 0.7 makes
training diverge, 0.8 breaks it, and above 0.6 the retain sample collapses after a step.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

LEAVES = [f"{split}_{task}" for split in ("forget05", "retain95", "real") for task in ("cls", "cloze")]


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def rate_of(config: Path) -> float:
    found = re.search(r"^learning_rate: (.+)$", config.read_text(), re.M)
    return float(found[1]) if found else 0.0


def train() -> int:
    config = Path(option("--config"))
    output = Path(re.search(r"^output_dir: (.+)$", config.read_text(), re.M)[1])
    rate = rate_of(config)
    with (config.parent / "times_trained").open("a") as file:
        file.write("x")
    print("start: accuracy on the sample: forget 1.000, retain 1.000", flush=True)
    time.sleep(float(os.environ["STAND_IN_SECONDS"]))
    if rate == 0.7:
        print("stopped: step 3: the loss is nan", flush=True)
        return 1
    if rate == 0.8:
        print("CUDA out of memory", flush=True)
        return 1
    if rate > 0.6:
        print("step 5: accuracy on the sample: forget 0.100, retain 0.100", flush=True)
        time.sleep(5 if rate < 0.9 else 0)
    output.mkdir(parents=True, exist_ok=True)
    (output / "training_record.json").write_text("{}")
    return 0


def score() -> int:
    time.sleep(float(os.environ.get("STAND_IN_SCORING_SECONDS", "0")))
    model = Path(dict(one.split("=", 1) for one in option("--model_args").split(","))["pretrained"])
    output = Path(option("--output_path"))
    config = model.parent / "config.yaml"
    rate = rate_of(config) if config.is_file() else 0.0
    value = {"forget05": 1 - rate, "retain95": 1 - rate / 10, "real": 1 - rate / 10}
    tasks = {}
    for leaf in LEAVES:
        score = value[leaf.split("_")[0]]
        metrics = {name: {"value": score} for name in ("acc_f", "acc_r")}
        tasks[f"umu_{leaf}"] = {"metrics": {**metrics, "modality_gap": {"value": rate / 4}}}
    valid = rate < 0.9
    output.mkdir(parents=True, exist_ok=True)
    umu = {"tasks": tasks, "validity": {"valid": valid, "reasons": [] if valid else ["umu_forget05_cls: 24 empty"]}}
    (output / "20260101_000000_results.json").write_text(json.dumps({"umu": umu, "results": {}}))
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(train() if "umu_trainers.unlearn" in sys.argv else score())
