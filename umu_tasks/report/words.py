"""What the words and columns of a report mean, for someone who sees them for the first time."""

from __future__ import annotations

Entry = tuple[str, str]

_UMU_RULES: tuple[Entry, ...] = (
    (
        "Default, official, strict rule",
        "Three ways to call the same output right. Default: the nearest option, or the gold up to its first full stop "
        "in the output. Official: what the published evaluator runs, where a classification answer must equal the "
        "option on forget and retain sets. Strict: the whole gold, and a refusal is never right.",
    ),
)

_MLLMU: tuple[Entry, ...] = (
    (
        "Default, strict rule",
        "Two ways to call the same output right. Default: what the published evaluator runs, the first letter of a "
        "classification answer, and the whole gold anywhere in a cloze answer. Strict: the gold letter or option and "
        "nothing else, the gold at word boundaries, and a refusal is never right.",
    ),
    (
        "Test set",
        "The people to be forgotten, asked about in other words and shown in other pictures. Low scores there are the "
        "aim, as on the forget set.",
    ),
    (
        "Asked one way",
        "Some facts are asked in text only or with a portrait only. They count in the text or the image score and in "
        "no other: any, both, gap, acc_f and acc_r are over the n facts that are asked both ways.",
    ),
    ("Zero-shot", "Without solved examples in the prompt. Scores with and without examples do not compare."),
)

_GENERAL: tuple[Entry, ...] = (
    (
        "General ability",
        "Scores of other benchmarks, which have nothing to do with the people: what unlearning costs elsewhere.",
    ),
    (
        "Factuality, not judged",
        "How true a generated sentence is, 1 to 10, in the eyes of a judge model. Where no judge was asked there is no "
        "such score, and that says nothing about the model.",
    ),
)

_GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "Start model",
        "The model before unlearning: it was taught all the people. Every change is measured against it.",
    ),
    (
        "Forget set, retain set, real people, full set",
        "The people to be forgotten; the other invented people, to be kept; real people, to be kept; all the invented "
        "people together.",
    ),
    (
        "Knowledge instance",
        "One fact about one person, asked twice: once as text (the question names the person) and once with an image "
        "(the question shows the portrait and no name). n counts instances that were answered both ways.",
    ),
    (
        "Classification, cloze, generation",
        "Choose one of four options; fill in the missing word; answer in a sentence. The first two are right or wrong, "
        "the third is compared with the true sentence by ROUGE-L.",
    ),
    ("Text (acc_uni, rl_uni)", "Score of the text questions: unimodal."),
    ("Image (acc_mul, rl_mul)", "Score of the image questions: multimodal."),
    (
        "Gap",
        "Image minus text, in percentage points. Far from zero on the forget set, the model has forgotten one way of "
        "asking only: the knowledge is still in it.",
    ),
    (
        "Any, Both (acc_any, acc_all)",
        "Percent of instances right in at least one way of asking, and right in both. A fact counts as forgotten only "
        "when neither way brings it out, and as kept only when both do.",
    ),
    (
        "acc_f, acc_r",
        "One number for both ways of asking. On the forget set acc_f, the mean of image, text and any (lower is "
        "better); elsewhere acc_r, the mean of image, text and both (higher is better).",
    ),
    (
        "rl_f, rl_r",
        "The same for generation: per instance, from the two ROUGE-L values x and y, (x² + y²)/(x + y) on the forget "
        "set, which leans to the larger one, and 2xy/(x + y) elsewhere, which leans to the smaller one; then the mean.",
    ),
    (
        "Small numbers such as 88–100",
        "95 % interval: where the score would probably lie with other people of the kind (bootstrap over people, since "
        "the answers about one person go together). Small sets have wide intervals. Where everybody scores alike, as "
        "at 0 or 100, it has no width: the bootstrap can't see what it never drew.",
    ),
    (
        "≈",
        "The change is within the noise: with so few people it can be chance. Both models answered the same questions, "
        "so changes are taken question by question (95 %, paired bootstrap over people).",
    ),
    ("Kept", "The score as percent of the start model's score."),
    (
        "Empty, refused, failed",
        "Percent of outputs with nothing in them; that decline to answer (“I don't know”, “Sorry, …”, “I'm unable …”); "
        "percent of questions that have no output at all, or a backend's note that it failed.",
    ),
    (
        "Invalid",
        "More than 1 % of a task's outputs are empty or failed. Such a model scores low because it is broken, and low "
        "scores on the forget set must not be read as forgetting: they are struck out.",
    ),
    (
        "Collapsed",
        "The model answers, but lost the people to keep as well, or refuses them too: whatever it lost on the forget "
        "set, it did not forget selectively.",
    ),
    (
        "not in the published file",
        "The run is a result file of the published evaluator, which holds accuracies under the official rule and "
        "ROUGE, and nothing about people, outputs or intervals.",
    ),
    (
        "†",
        "Not asked in this run but computed from its answers on other splits, which are the same questions: the full "
        "set is the forget set and the retain set together.",
    ),
    ("not run", "The run was not scored on this split. It says nothing, and it is not zero."),
    ("in part", "Not all of classification and cloze was scored on this split, so there is no mean of both."),
)


def glossary(benchmark: str) -> tuple[Entry, ...]:
    """Return term and meaning of what a report on a benchmark says."""
    return (*_GLOSSARY, *(_MLLMU if benchmark == "mllmu" else _UMU_RULES), *_GENERAL)
