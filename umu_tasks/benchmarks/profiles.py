"""The people of one split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import overload

from umu_tasks.benchmarks.errors import DataError
from umu_tasks.benchmarks.images import StoredImage
from umu_tasks.benchmarks.instances import Profile


class ProfileSet(Sequence[Profile]):
    """The profiles of one split, in stored order. Portraits are read when a profile's `open_image` is called.

    Attributes:
        split: canonical split name.
        ids: profile IDs in stored order, unique.
        source: what the set was loaded from, for messages.
    """

    def __init__(self, split: str, profiles: Iterable[Profile], *, source: str = "") -> None:
        self.split = split
        self.source = source
        self._profiles = tuple(profiles)
        self._by_id = {profile.profile_id: profile for profile in self._profiles}
        self.ids: tuple[str, ...] = tuple(profile.profile_id for profile in self._profiles)
        if len(self._by_id) != len(self._profiles):
            twice = sorted({one for one in self.ids if self.ids.count(one) > 1})
            raise DataError(
                f"split {split} holds ID {', '.join(twice[:10])} more than once. Remove the copies.", file=source
            )

    def by_id(self, profile_id: str) -> Profile:
        """Return one person.

        Raises:
            DataError: nobody in this split has this ID.
        """
        try:
            return self._by_id[profile_id]
        except KeyError:
            first = ", ".join(self.ids[:5])
            raise DataError(
                f"split {self.split} has no person with ID {profile_id!r}; it holds {len(self)}: {first}, ….",
                file=self.source,
            ) from None

    def subset(self, split: str, ids: Iterable[str]) -> ProfileSet:
        """Return the people with these IDs, as the split called `split`.

        Raises:
            DataError: somebody is not here.
        """
        return ProfileSet(split, (self.by_id(one) for one in ids), source=self.source)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over IDs, texts and image bytes, in order: equal wherever and however the same content is stored."""
        digest = hashlib.sha256()
        for profile in self:
            digest.update(_text_content(profile))
            for image in profile.images():
                content = image.content() if isinstance(image, StoredImage) else image().tobytes()
                digest.update(hashlib.sha256(content).digest())
        return digest.hexdigest()

    @overload
    def __getitem__(self, index: int) -> Profile: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Profile, ...]: ...
    def __getitem__(self, index: int | slice) -> Profile | tuple[Profile, ...]:
        return self._profiles[index]

    def __len__(self) -> int:
        return len(self._profiles)

    def __repr__(self) -> str:
        return f"ProfileSet({self.split!r}, {len(self)} people)"


def _text_content(profile: Profile) -> bytes:
    questions = [
        [question.task, question.key, question.modality, question.text]
        + [question.gold, question.official_gold, question.gold_letter, question.stored_letter]
        + [text for option in question.options.items() for text in option]
        for question in profile.every_question()
    ]
    pairs = [[pair.key, pair.modality, pair.question, pair.answer] for pair in profile.pairs]
    return json.dumps([profile.profile_id, profile.biography, pairs, questions]).encode()
