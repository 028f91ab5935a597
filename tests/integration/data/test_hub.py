"""The hub as a source, against a server on this machine that answers like the hub.

The server knows the few addresses that `datasets` and `huggingface_hub` ask for when they list a data set's configs and
fetch its files; that is enough, since everything on our side of them is the real code. Each question is asked in a
fresh process, because both libraries read their settings when they are imported.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

import pytest

from umu_tasks.benchmarks.sources import open_source

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"
HUB_ID = "linbojunzi/UMU-bench"
REVISION = "a" * 40
CONFIGS = {"forget_5": "forget_5", "retain_95": "retain_95", "Real_Person_Set": "real_person", "Full_Set": "full_data"}

CLIENT = """
import json, logging, sys
from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import open_source
logging.basicConfig(stream=sys.stderr)
answers = {}
try:
    source = open_source()
    answers["source"] = [source.kind, source.spec, source.splits()]
    for split in sys.argv[1:]:
        profiles = source.load(split)
        answers[split] = [profiles.split, profiles.ids, profiles.fingerprint, profiles[0].open_image().mode]
except DataError as error:
    answers["error"] = str(error)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """The fixture as a hub repository whose card, like the published one, declares other row counts."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(FIXTURE / "data", folder, dirs_exist_ok=True)
    configs = [
        f"- config_name: {config}\n  data_files:\n  - split: train\n    path: {place}/train-*\n"
        for config, place in CONFIGS.items()
    ]
    infos = [
        f"- config_name: {config}\n  splits:\n  - name: train\n    num_bytes: 9\n    num_examples: 25\n"
        for config in CONFIGS
    ]
    (folder / "README.md").write_text(f"---\nconfigs:\n{''.join(configs)}dataset_info:\n{''.join(infos)}---\n# UMU\n")
    return folder


@pytest.fixture(scope="module")
def endpoint(repository) -> Iterator[str]:
    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = urlparse(self.path).path
            tree = f"/api/datasets/{HUB_ID}/tree/{REVISION}"
            files = f"/datasets/{HUB_ID}/resolve/"
            if path.startswith(f"/api/datasets/{HUB_ID}/revision/"):
                siblings = [{"rfilename": str(one.relative_to(repository))} for one in repository.rglob("*.*")]
                self.answer({"id": HUB_ID, "sha": REVISION, "private": False, "tags": [], "siblings": siblings})
            elif path.startswith(tree):
                folder = repository / path.removeprefix(tree).strip("/")
                self.answer([entry(one) for one in sorted(folder.iterdir())])
            elif path.startswith(files):
                self.send_file(repository / path.removeprefix(files).split("/", 1)[1])
            else:
                self.send(404, b"", {})

        def answer(self, value: object) -> None:
            self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def send_file(self, path: Path) -> None:
            found = path.is_file()
            data = path.read_bytes() if found else b""
            headers = {"X-Repo-Commit": REVISION, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
            self.send(200 if found else 404, data, headers if found else headers | {"X-Error-Code": "EntryNotFound"})

        def send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    def entry(path: Path) -> dict[str, object]:
        kind = {"type": "file", "size": path.stat().st_size} if path.is_file() else {"type": "directory", "size": 0}
        return {**kind, "oid": "0" * 40, "path": str(path.relative_to(repository))}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def ask(cache: Path, *splits: str, **variables: str) -> tuple[dict, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_HOME": str(cache), "NO_PROXY": "127.0.0.1", **variables}
    command = [sys.executable, "-c", CLIENT, *splits]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout), done.stderr


def test_default_source_loads_from_the_hub_and_then_without_network(endpoint, tmp_path):
    answers, log = ask(tmp_path, "forget_5", "real", "full", HF_ENDPOINT=endpoint)
    assert answers["source"] == ["hub", HUB_ID, ["forget05", "retain95", "real", "full"]]
    local = open_source(str(FIXTURE))
    for asked, split in (("forget_5", "forget05"), ("real", "real"), ("full", "full")):
        expected = local.load(split)
        assert answers[asked] == [split, list(expected.ids), expected.fingerprint, "RGB"]
    assert f"{HUB_ID}: the dataset card declares 25 rows for forget05, the files hold 2; using the files." in log

    offline, log = ask(tmp_path, "forget_5", "Full_Set", HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="1")
    assert offline["source"] == ["hub", HUB_ID, ["forget05", "real", "full"]], "what was loaded before is there"
    assert (offline["forget_5"], offline["Full_Set"]) == (answers["forget_5"], answers["full"])
    assert "declares 25 rows for forget05, the files hold 2" in log


def test_without_network_and_cache_the_error_says_what_to_do(tmp_path):
    answers, _ = ask(tmp_path, "full", HF_HUB_OFFLINE="1")
    assert answers["error"].startswith(f"{HUB_ID}: cannot be loaded from the hub (")
    assert "set UMU_DATA to a local folder, or to `mini`" in answers["error"]
    assert "forget_5/train-00000-of-00001.parquet" in answers["error"]


def test_hub_data_set_without_the_benchmarks_splits(endpoint, repository, tmp_path):
    card = repository / "README.md"
    text = card.read_text()
    try:
        card.write_text("---\nconfigs:\n- config_name: something\n  data_files: forget_5/*\n---\n")
        answers, _ = ask(tmp_path, HF_ENDPOINT=endpoint)
    finally:
        card.write_text(text)
    assert answers["error"].startswith(f"{HUB_ID}: no split of UMU-Bench among the configs: something.")
