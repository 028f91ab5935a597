"""The table in the terminal: shorter for our tasks, untouched for others."""

from __future__ import annotations

from umu_tasks.tasks.printed import _shortened, printed

OURS = {
    "alias": " - umu_real_cls", "record,none": 12, "acc_mul,none": 0.5, "acc_mul_stderr,none": 0.1,
    "acc_mul_official,none": 0.4, "acc_mul_official_stderr,none": 0.1, "bleu_mul,none": 0.3, "failed,none": 0,
}  # fmt: skip
SAID = "umu-bench: the results file also has the scores under the _official rule, ROUGE-1, ROUGE-2, BLEU, intervals."
THEIRS = {"alias": "bleu", "bleu_1,none": 0.2, "x_strict,none": 1}


def test_rows_of_ours_are_fewer_and_nothing_is_lost():
    """The results file is written from what was passed in."""
    results = {"results": {"umu_real_cls": OURS, "other": THEIRS}, "n-shot": {}}
    shown = printed(results)
    assert shown["results"]["umu_real_cls"].keys() == {"alias", "acc_mul,none", "acc_mul_stderr,none", "failed,none"}
    assert shown["results"]["other"] == THEIRS
    assert len(results["results"]["umu_real_cls"]) == len(OURS)


def test_a_table_without_our_tasks_is_lmms_evals_own():
    table = _shortened(lambda results, column="results": f"{column} of {','.join(results['results'])}")
    assert table({"results": {"other": THEIRS}}) == "results of other"
    assert table({"results": {"umu_real_cls": OURS, "other": THEIRS}}).endswith(f",other\n{SAID}")
    assert table({"results": {"umu_real_cls": OURS}}) == f"results of umu_real_cls\n{SAID}"
    assert table({"results": {"umu_real_cls": OURS}}, "groups") == "groups of umu_real_cls"
