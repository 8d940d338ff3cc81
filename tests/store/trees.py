"""Small synthetic trees for the tests of the store room."""

from __future__ import annotations

from pathlib import Path

from rmqstore.store.mapped import MappedFileQueue, Problem, ProblemKind


def offset_name(offset: int) -> str:
    return str(offset).zfill(20)


def put(directory: Path, *files: tuple[int, int]) -> Path:
    """Files of `length` bytes under the names of `offset`, for every (offset, length)."""
    directory.mkdir(parents=True, exist_ok=True)
    for offset, length in files:
        with (directory / offset_name(offset)).open("wb") as stream:
            stream.truncate(length)
    return directory


def problems(queue: MappedFileQueue) -> dict[ProblemKind, Problem]:
    """Problems by kind; a kind that appears twice fails the test."""
    found = list(queue.problems())
    by_kind = {problem.kind: problem for problem in found}
    assert len(by_kind) == len(found), found
    return by_kind
