"""The page a sweep ends in."""

from __future__ import annotations

from umu_trainers.sweep.report import _page


def test_what_a_log_says_is_text_in_the_page(config) -> None:
    """A reason such as <class 'KeyError'> would vanish from the page, and a script in it would run."""
    page = _page(config(name="a <b>"), "# Sweep a <b>\n\n| ended |\n| --- |\n| stopped (<class 'x'> <br>) |\n", b"")
    assert "stopped (&lt;class 'x'&gt; &lt;br&gt;)" in page
    assert "<h1>Sweep a &lt;b&gt;</h1>" in page
    assert '<div class="scroll" tabindex="0"><table>' in page
