"""The hub as a source of data, against a server on this machine that answers as the hub does."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.sources import open_source

FIXTURE = Path(__file__).parents[2] / "fixtures" / "umu_small"
HUB_ID = "linbojunzi/UMU-bench"
SHARD = "train-00000-of-00001.parquet"


def expected(split: str) -> list[object]:
    """Return what loading a split gives, from the folder the repository is a copy of."""
    profiles = open_source(str(FIXTURE)).load(split)
    return [split, list(profiles.ids), profiles.fingerprint, "RGB"]


def test_the_default_source_loads_and_is_there_without_network(hub, repository, load):
    """No setting at all: the published data set, whose declared sizes are wrong; later without network."""
    answers, log = load("forget_5", "real", "full")
    assert answers["source"] == ["hub", HUB_ID, ["forget05", "retain95", "real", "full"]]
    assert answers["forget_5"] == expected("forget05")
    assert answers["real"] == expected("real")
    assert answers["full"] == expected("full")
    assert f"{HUB_ID}: the dataset card declares 25 rows for forget05, the files hold 2; using the files." in log
    assert "declares 25 rows for real, the files hold 2" in log
    assert not hub.downloads(f"retain_95/{SHARD}"), "what is not asked for is not downloaded"

    asked = len(hub.requests)
    offline, log = load("forget_5", "Full_Set", HF_HUB_OFFLINE="1")
    assert offline["source"] == ["hub", HUB_ID, ["forget05", "real", "full"]]
    assert [offline["forget_5"], offline["Full_Set"]] == [answers["forget_5"], answers["full"]]
    assert "declares 25 rows for forget05, the files hold 2" in log
    absent, _ = load("retain95", HF_HUB_OFFLINE="1")
    assert "no split 'retain95' here. Choose one of: forget05, real, full." in absent["error"]
    assert "only these were downloaded before" in absent["error"]
    assert len(hub.requests) == asked

    hub.status = 503
    down, log = load("full")
    assert down["full"] == answers["full"]
    assert f"{HUB_ID}: the hub is out of reach (HfHubHTTPError: Server error '503" in log
    assert sum("datasets" in one.path for one in hub.requests[asked:]) == 1, "no half minute of attempts"


def test_a_second_load_fetches_nothing_and_a_new_commit_is_noticed(hub, repository, load):
    """A re-uploaded file must not hide behind the cached one, nor cost the others a download."""
    load("forget05", "real")
    hub.requests.clear()
    load("forget05", "real")
    assert not hub.downloads(SHARD)
    path = repository.folder / "real_person" / SHARD
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    answers, _ = load("forget05", "real")
    assert answers["real"][1] == ["001"]
    assert answers["forget05"] == expected("forget05")
    assert len(hub.downloads(SHARD)) == 1


def make_large(path: Path, size: int) -> None:
    """Add a column of random bytes to a parquet file: `huggingface_hub` writes downloads in pieces of 10 MB."""
    noise = random.Random(0)
    table = pq.read_table(path)
    column = [noise.randbytes(size // len(table)) for _ in range(len(table))]
    pq.write_table(table.append_column("noise", pa.array(column)), path)


def test_an_interrupted_download_goes_on_where_it_broke_off(hub, repository, load):
    """Connections break in the middle of a large file; what is loaded afterwards is whole."""
    name = f"full_data/{SHARD}"
    make_large(repository.folder / name, 22_000_000)
    repository.broken_off[name] = [12_000_000]
    answers, _ = load("full")
    assert answers["full"] == expected("full")
    assert [one.range for one in hub.downloads(SHARD)] == [None, "bytes=10485760-"]


def test_a_download_that_ends_in_the_middle_is_an_error_and_leaves_nothing_half(repository, load):
    """The run ends, with the name and what to do; the next run loads the whole file."""
    name = f"full_data/{SHARD}"
    repository.broken_off[name] = [2000] * 6  # one download and five attempts to go on with it
    answers, _ = load("full")
    assert answers["error"].startswith(f"{HUB_ID}: the hub cannot be reached, or the connection broke off (Remote")
    assert "start again" in answers["error"]
    offline, _ = load("full", HF_HUB_OFFLINE="1")
    assert HUB_ID in offline["error"], "half a file is no file"
    answers, _ = load("full")
    assert answers["full"] == expected("full")


def test_a_truncated_copy_in_the_cache_is_an_error(repository, load, tmp_path):
    """A disk that ran full, or a copied cache: named with the file to delete, after which it is fetched again."""
    load("forget05")
    (cached,) = (tmp_path / "hf").rglob(f"snapshots/*/forget_5/{SHARD}")
    blob = cached.resolve()
    blob.write_bytes(blob.read_bytes()[:-3000])
    answers, _ = load("forget05")
    assert answers["error"].startswith(f"{cached}: cannot be read (")
    assert f"delete {blob}, and the next start fetches it" in answers["error"]
    blob.unlink()
    answers, _ = load("forget05")
    assert answers["forget05"] == expected("forget05")
    (card,) = (tmp_path / "hf").rglob("snapshots/*/README.md")
    card.unlink()  # a cache filled by hand may lack it
    offline, _ = load("forget05", HF_HUB_OFFLINE="1")
    assert offline["forget05"] == expected("forget05")


def test_a_set_that_lacks_people_is_an_error(repository, load):
    """24 of 25 people: the declared sizes can't tell, the other sets can."""
    path = repository.folder / "forget_5" / SHARD
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    answers, _ = load("full", "retain95", "forget05")
    assert "forget05 (1 people) and retain95 (3) together lack ID 002 of full (5)" in answers["error"]


def test_unknown_id(hub, repository, load):
    """A misspelt id: the hub says 401 to strangers, which is no reason to ask them to log in only."""
    answers, _ = load("full", UMU_DATA="linbojunzi/UMU-bnch")
    assert answers["error"].startswith("linbojunzi/UMU-bnch: there is no such data set on the hub, nor a folder")
    assert "Check the id" in answers["error"]
    assert "set UMU_DATA to a local folder" in answers["error"]
    assert f"forget_5/{SHARD}" in answers["error"]
    with_token, _ = load("full", UMU_DATA="linbojunzi/UMU-bnch", HF_TOKEN="hf_abc")  # noqa: S106
    assert with_token["error"].startswith("linbojunzi/UMU-bnch: there is no such data set on the hub")


def test_an_id_that_the_hub_does_not_allow():
    """The hub's library refuses it before it asks; that is no traceback either."""
    with pytest.raises(DataError, match=r"^some--one/x: cannot be loaded from the hub \(HFValidationError: "):
        open_source("some--one/x").load("full")


@pytest.mark.parametrize("status", [401, 403])
def test_restricted_data_set(repository, load, status):
    """The id is right, and the way in is to ask for access and to log in."""
    repository.gate = status
    answers, _ = load("full")
    assert answers["error"].startswith(f"{HUB_ID}: access to this data set is restricted (GatedRepoError: {status}")
    assert "hf auth login" in answers["error"]


def test_no_network_and_no_copy(hub, load):
    """A cluster node without network: says so at once, and what to set."""
    answers, _ = load("full", HF_HUB_OFFLINE="1")
    assert answers["error"].startswith(f"{HUB_ID}: the hub's cache has no copy, and HF_HUB_OFFLINE is set")
    assert "forget_5/train-00000" in answers["error"]
    assert "set UMU_DATA to a local folder, or to `mini`" in answers["error"]
    answers, _ = load("full", HF_ENDPOINT="http://127.0.0.1:9")  # nobody listens there
    assert answers["error"].startswith(
        f"{HUB_ID}: the hub cannot be reached, or the connection broke off (ConnectError"
    )
    assert "set UMU_DATA to a local folder, or to `mini`" in answers["error"]
    hub.status = 503
    answers, _ = load("full")
    assert answers["error"].startswith(f"{HUB_ID}: cannot be loaded from the hub (HfHubHTTPError: Server error '503")


def test_a_mirror_of_the_same_schema_with_other_names(hub, load, tmp_path):
    """No card, split files loose in `data/`, one split in two shards: the rules for folders hold."""
    folder = tmp_path / "mirror"
    (folder / "data").mkdir(parents=True)
    for name in ("forget_5", "retain_95", "full_data"):
        shutil.copy(FIXTURE / "data" / name / SHARD, folder / "data" / f"{name}-00000-of-00001.parquet")
    table = pq.read_table(FIXTURE / "data" / "real_person" / SHARD)
    for number in range(2):
        path = folder / "data" / f"Real_Person_Set-{number:05d}-of-00002.parquet"
        pq.write_table(table.slice(number, 1), path)
    hub.add("datasets", "chengyewang/UMU-bench", folder)
    answers, log = load("real", "forget05", UMU_DATA="chengyewang/UMU-bench")
    assert answers["real"] == expected("real")
    assert answers["forget05"] == expected("forget05")
    assert "declares" not in log
    (shard,) = (tmp_path / "hf").rglob("Real_Person_Set-00001-of-00002.parquet")
    shard.unlink()  # as where a download ended between the two
    offline, _ = load("forget05", "real", UMU_DATA="chengyewang/UMU-bench", HF_HUB_OFFLINE="1")
    assert offline["forget05"] == expected("forget05"), "half of one split takes nothing from the others"
    assert "no split 'real' here. Choose one of: forget05." in offline["error"]


def test_a_data_set_without_the_benchmarks_splits(hub, load, tmp_path):
    folder = tmp_path / "other"
    (folder / "something").mkdir(parents=True)
    shutil.copy(FIXTURE / "data" / "forget_5" / SHARD, folder / "something" / SHARD)
    hub.add("datasets", "someone/other", folder)
    answers, _ = load(UMU_DATA="someone/other")
    assert answers["error"].startswith("someone/other: no split of UMU-Bench in this data set")
    assert f"Its files: something/{SHARD}." in answers["error"]


def test_data_check_of_a_hub_id(hub, repository, run):
    """`umu data check ID` downloads all splits and exits by what it found."""
    done = run(sys.executable, "-m", "umu_tasks.cli", "data", "check", HUB_ID)
    assert done.status == 0, done.log
    assert f"{HUB_ID} (hub)" in done.output
    assert "row count differs from the dataset card: 4" in done.output
    missing = run(sys.executable, "-m", "umu_tasks.cli", "data", "check", "nobody/nothing", HF_HUB_OFFLINE="1")
    assert missing.status == 1
    assert "nobody/nothing: the hub's cache has no copy" in missing.output
