"""UMU-mini as a data source."""

from umu_tasks.benchmarks.checks import check_source
from umu_tasks.benchmarks.sources import open_source


def test_mini_loads_and_passes_its_own_check(monkeypatch):
    """The generator writes what the reader of the real data reads: 60 invented people, 20 "real" ones, all splits."""
    monkeypatch.setenv("UMU_DATA", "mini")
    source = open_source()
    assert (source.kind, source.spec) == ("mini", "mini")
    sizes = {split: len(source.load(split)) for split in source.splits()}
    forget, retain = {"forget05": 3, "forget10": 6, "forget15": 9}, {"retain95": 57, "retain90": 54, "retain85": 51}
    assert sizes == forget | retain | {"real": 20, "full": 60}
    report = check_source("mini")
    assert report.ok, report.of("error")
    assert report.splits["full"].pairs == {"unimodal": 360, "multimodal": 360}
    assert report.splits["full"].instances == {"cls": 120, "cloze": 120, "gen": 120}
    assert report.splits["real"].instances == {"cls": 40, "cloze": 40, "gen": 20}
