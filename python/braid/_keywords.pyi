# The keywords of compile, explain and check; tests/python/options_test.py --update writes this file.
import os
from collections.abc import Sequence
from typing import TypedDict

Text = str | os.PathLike[str]

class Keywords(TypedDict, total=False):
    name: Text | None
    checked: bool
    standalone: bool
    ranks: int
    devices: int | None
    tp: int | None
    mesh: Text | None
    plan: Text | None
    configuration: Text | None
    at: Text | Sequence[Text] | None
    with_: Text | Sequence[Text] | None
    split_caches: bool
    memory_limit: int | None
    keep: Text | None
    strict: bool
    conversion_share: float
    default_dim: Text | None
    capacity: Text | Sequence[Text] | None
    seed: int | None
    target: Text
    precision: Text
    precise: bool
    passes: Text | None
    disable: Text | Sequence[Text] | None
    plugins: Text | Sequence[Text] | None
    bisect: int | None
    machine: Text | None
    costs: Text | None
    memory_cap: int | None
    force_kernels: Text | Sequence[Text] | None
    link: Text | None
