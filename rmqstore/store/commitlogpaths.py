"""The search for the directories of a commit log: one or several, configured or not, on this machine or copied from another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rmqstore.store.brokerconf import BrokerConfig
from rmqstore.store.mapped import MappedFileQueue, list_directory, parse_offset_name
from rmqstore.store.parts import PartKind, part_kind


@dataclass(frozen=True, slots=True)
class CommitLogDirectories:
    """Directories in the order of the configuration; `notes` are sentences on everything that was not taken literally."""

    writable: tuple[Path, ...]
    read_only: tuple[Path, ...]
    notes: tuple[str, ...]


def find_commit_log_directories(root: Path, config: BrokerConfig) -> CommitLogDirectories:
    """Return the directories of the commit log of the store at `root` (fact sheet commit log §1.4)."""
    notes: list[str] = []
    configured = config.text("storePathCommitLog").strip()
    if not configured:
        default = root / PartKind.COMMITLOG
        return CommitLogDirectories((default, *_siblings(root, notes)), (), tuple(notes))
    separator = config.text("multiPathSplitter")
    if not separator or separator not in configured:
        return CommitLogDirectories((_here(configured, root, config, notes),), (), tuple(notes))
    read_only = [_here(text, root, config, notes) for text in config.text("readOnlyCommitLogStorePaths").strip().split(separator) if text]
    # A directory may be named in both lists: the broker then reads it and creates no file in it.
    writable = [_here(text, root, config, notes) for text in configured.split(separator) if text]
    return CommitLogDirectories(
        tuple(path for path in dict.fromkeys(writable) if path not in read_only), tuple(dict.fromkeys(read_only)), tuple(notes)
    )


def _here(text: str, root: Path, config: BrokerConfig, notes: list[str]) -> Path:
    """Return the directory on this machine for a configured path."""
    named = Path(text)
    if named.is_absolute() and named.is_dir():
        return named
    for candidate in _candidates(text, root, config):
        if candidate.is_dir():
            notes.append(f"The configured commit log directory {text} does not exist here; {candidate} is used instead.")
            return candidate
    notes.append(f"The configured commit log directory {text} exists neither there nor below {root}.")
    return named if named.is_absolute() else root / named


def _candidates(text: str, root: Path, config: BrokerConfig) -> Iterator[Path]:
    path = PurePosixPath(text)
    if not path.is_absolute():
        yield root / path
        return
    old_root = config.text("storePathRootDir")
    if old_root and path.is_relative_to(old_root):
        yield root / path.relative_to(old_root)
    yield root / path.name
    yield root.parent / path.name


def _siblings(root: Path, notes: list[str]) -> Iterator[Path]:
    """Yield directories beside `commitlog` that hold the other files of a log which was spread over several directories.

    A directory counts if its name is unknown to brokers, it holds files named by offset of the log's own length, and none of these
    names is in `commitlog` too: the same names mean a copy, and reading a copy as data would hide what is wrong with the original.
    """
    main = MappedFileQueue.scan(root / PartKind.COMMITLOG)
    taken = {file.start for file in main.files}
    for entry in list_directory(root):
        if part_kind(entry.name) is not None or not entry.is_dir():
            continue
        directory = Path(entry.path)
        lengths = {
            start: file.length
            for file in list_directory(directory)
            if (start := parse_offset_name(file.name)) is not None and file.is_file()
        }
        if not lengths:
            continue
        if taken & set(lengths):
            notes.append(f"{directory} holds files with the same names as the commit log and is left out as a copy of it.")
        elif main.file_size in (None, Counter(lengths.values()).most_common(1)[0][0]):
            notes.append(f"{directory} holds files of this commit log and is read as a part of it (several commit log directories).")
            taken |= set(lengths)
            yield directory
        else:
            notes.append(f"{directory} holds files named by offset, but of another length than the commit log, and is left out.")
