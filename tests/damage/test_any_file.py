"""One random damage of any file of a store: neither `doctor` nor `verify` calls a store fine that a broker would see changed.

Some cases of each store; `python -m tests.damage.any_file` makes more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.damage.any_file import BASES, Base, ask, unpacked

_SEEDS = range(1, 11)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Base]]:
    yield _Unpacked(tmp_path_factory.mktemp("bases"))


class _Unpacked(dict[str, Base]):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def __missing__(self, name: str) -> Base:
        self[name] = unpacked(name, self._directory / name)
        return self[name]


@pytest.mark.limited(40)
@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("seed", _SEEDS)
def test_one_of_both_notices(seed: int, name: str, bases: dict[str, Base]) -> None:
    answer = ask(bases[name], seed)
    assert answer.problems == (), f"{answer.file}, {answer.damage}"


@pytest.mark.parametrize("name", ["observed-5.5.1"])
def test_most_damages_are_noticed(name: str, bases: dict[str, Base]) -> None:
    """The reasons why a damage is not seen do not excuse everything."""
    answers = [ask(bases[name], seed) for seed in range(100, 112)]
    assert sum(not answer.fine for answer in answers) >= 4
