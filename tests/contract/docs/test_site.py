"""The documentation's site, its links, and the files it names."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from doc_blocks import PAGES, ROOT, prose

_NAMED = re.compile(r"`((?:configs|docs|scripts|tests|umu_tasks|umu_trainers)/[^\s`]+)`")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; each warning about links, anchors and navigation is an error."""
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _Requests(HTMLParser):
    """Collects what a browser fetches by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "preconnect", "icon"):
            self.found.append(given.get("href") or "")


def test_no_link_is_broken_and_no_page_is_left_out(site):
    """Built with every check on; the README is the first page, and configs are part of the site."""
    assert "Can a multimodal model forget a person" in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "configs" / "unlearn" / "gd.yaml").is_file()
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()


def test_it_asks_no_other_server_for_anything(site):
    """Readers without network see it whole, and nobody learns who reads it."""
    for page in site.rglob("*.html"):
        collected = _Requests()
        collected.feed(page.read_text(encoding="utf-8"))
        assert not [one for one in collected.found if one.startswith(("http:", "https:", "//"))], page


def test_searching_needs_no_web_server(site):
    """The index is a script that a page opened from a folder may load."""
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "modality gap" in index


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_links_exist(page):
    """In the repository too, where pages are read without the site."""
    text = prose(page)
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", text):
        if re.match(r"[a-z]+:", target):
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[^\s]*)?|mailto:\S+", target), target
        else:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
    for name in _NAMED.findall(text):
        path = re.sub(r"::\w+$", "", name)
        if not re.search(r"[A-Z]{3,}|…", path.replace("README", "").replace("LICENSE", "")):
            assert all(any(ROOT.glob(one)) for one in _spelled_out(path.rstrip("/"))), f"{page.name} names {name}"


def _spelled_out(path: str) -> list[str]:
    """Return `a/{b,c}.py` as `a/b.py` and `a/c.py`."""
    braces = re.search(r"\{([^}]*)\}", path)
    if not braces:
        return [path]
    return [one for word in braces[1].split(",") for one in _spelled_out(path.replace(braces[0], word, 1))]


def test_the_readme_names_every_page():
    """It is the index: a page that it doesn't lead to is not found by who reads the repository."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name}" not in readme] == []


@pytest.mark.parametrize(
    ("text", "page", "expected"),
    [
        ("[a](docs/data.md#x) ![b](docs/images/c.png)", "index.md", "[a](data.md#x) ![b](images/c.png)"),
        ("[a](../README.md) [b](../configs/sft/mini.yaml)", "data.md", "[a](index.md) [b](configs/sft/mini.yaml)"),
        (
            "[a](../../../docs/data.md) [b](rows.py)",
            "umu_tasks/tasks/umu/README.md",
            "[a](../../../data.md) [b](rows.py)",
        ),
        ("[a](https://x.org/docs/a) [b](#c) `[d](docs/e.md)`", "index.md", None),
        ("```\n[a](docs/b.md)\n```\n", "index.md", None),
    ],
)
def test_links_between_pages_become_links_of_the_site(text, page, expected):
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "scripts" / "docs_hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    assert hooks.site_links(text, page) == (expected or text)
