"""YAML in which a repeated key is refused: the first entry would be lost without a word."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from umu_tasks.benchmarks.cells import unique_keys


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        unique_keys((key.value, None) for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """Return what a YAML text holds.

    Raises:
        RepeatedKey: a key stands twice in one mapping.
        yaml.YAMLError: it is no YAML.
    """
    return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)
