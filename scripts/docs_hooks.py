"""MkDocs hooks: pages from outside `docs/`, and links between pages and files of the repository.

Pages link to each other as they lie in the repository, so that the links work there too (`../configs/unlearn/gd.yaml`
in `docs/training.md`). On the site every page keeps its place, but what is below `docs/` moves up one folder, and the
README is the first page. Other files that a page links to (configs, task files) become part of the site.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Page of the site -> where it lies in the repository; all others lie in docs/.
PAGES = {
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "umu_tasks/tasks/umu/README.md": "umu_tasks/tasks/umu/README.md",
    "umu_tasks/tasks/mllmu/README.md": "umu_tasks/tasks/mllmu/README.md",
    "umu_tasks/mini/base/README.md": "umu_tasks/mini/base/README.md",
}
_PLACES = {place: page for page, place in PAGES.items()}
# [text](target), ![text](target), [text](target#anchor "title"); not in code.
_LINK = re.compile(r"(\]\()([^)\s#]*)(#[^)\s]*)?((?:\s+\"[^\"]*\")?\))")
_CODE = re.compile(r"(^```.*?^```\s*?$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside `docs/`, and the files that pages link to."""
    for page, place in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / place)))
    linked = {
        target
        for file in files.documentation_pages()
        for target in _targets(file.content_string, place_of(file.src_uri))
        if not target.startswith("docs/") and target not in _PLACES and (ROOT / target).is_file()
    }
    for target in sorted(linked):
        files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Turn the page's links into links between pages of the site."""
    return site_links(markdown, page.file.src_uri)


def place_of(page: str) -> str:
    """Return where a page of the site lies in the repository."""
    return PAGES.get(page, f"docs/{page}")


def page_of(place: str) -> str:
    """Return where a file of the repository lies on the site."""
    return _PLACES.get(place, place.removeprefix("docs/"))


def site_links(markdown: str, page: str) -> str:
    """Return a page's text with its links as they must be on the site.

    >>> site_links("[GD](../configs/unlearn/gd.yaml), [data](data.md#from-the-hub)", "training.md")
    '[GD](configs/unlearn/gd.yaml), [data](data.md#from-the-hub)'
    """

    def rewrite(link: re.Match[str]) -> str:
        before, target, anchor, after = link.groups(default="")
        if not is_relative(target):
            return link[0]
        new = posixpath.relpath(page_of(_resolve(target, place_of(page))), posixpath.dirname(page) or ".")
        return f"{before}{new}{anchor}{after}"

    parts = _CODE.split(markdown)  # text, code, text, code …
    return "".join(part if number % 2 else _LINK.sub(rewrite, part) for number, part in enumerate(parts))


def is_relative(target: str) -> bool:
    """Tell a link to a file from one to a place in its own page, to another server, or to an address."""
    return bool(target) and not re.match(r"[a-z][a-z0-9+.-]*:|/", target)


def _targets(markdown: str, place: str) -> Iterable[str]:
    for part in _CODE.split(markdown)[::2]:
        yield from (_resolve(link[2], place) for link in _LINK.finditer(part) if is_relative(link[2]))


def _resolve(target: str, place: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
