"""`umu doctor` where data is on the hub: asked, switched off, and gone."""

from __future__ import annotations

import json
import sys

HUB_ID = "linbojunzi/UMU-bench"
# The command without what imports torch; `tests/unit/cli` has the whole.
CLIENT = """
import json
from umu_tasks.doctor.data import check_source
from umu_tasks.doctor.hub import check_hub, is_offline
reach, _ = check_hub()
data = check_source("umu", hub_answers=reach.state == "ok" and not is_offline())
print(json.dumps([reach.as_json(), data.as_json()]))
"""


def test_data_on_the_hub(hub, repository, load, run):
    """It counts people where they were downloaded, downloads none itself, and says what is there without the hub."""

    def found(**variables):
        done = run(sys.executable, "-c", CLIENT, **variables)
        assert done.status == 0, done.log
        return json.loads(done.output)

    reach, data = found()
    assert reach["state"] == data["state"] == "ok"
    assert "forget05 (not downloaded yet)" in data["text"]
    assert not [one for one in hub.requests if one.path.endswith(".parquet")]

    load("forget05")
    _, data = found()
    assert "forget05 (2 people), retain95 (not downloaded yet)" in data["text"]

    asked = len(hub.requests)
    _, data = found(HF_HUB_OFFLINE="1")
    assert f"{HUB_ID} on the hub, from the cache: forget05 (2 people)" in data["text"]
    assert data["state"] == "ok"
    assert len(hub.requests) == asked

    reach, data = found(HF_ENDPOINT="http://127.0.0.1:9", HF_HOME="/nonexistent")
    assert reach["state"] == data["state"] == "warning"
    assert "not in the cache" in data["text"]
    _, data = found(HF_ENDPOINT="http://127.0.0.1:9", HF_HOME="/nonexistent", UMU_DATA=HUB_ID)
    assert data["state"] == "failed", "the user named it"
