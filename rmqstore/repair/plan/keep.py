"""Storage of a plan for later: a plan file, and its contents in the directory `FILE.contents/`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from rmqstore.errors import RefusedError
from rmqstore.repair.files import beneath, copies, rights
from rmqstore.repair.files.writer import Writer
from rmqstore.repair.plan import codec, fingerprint
from rmqstore.repair.plan.model import Action, Plan
from rmqstore.repair.plan.staging import Staging


def keep_plan(plan: Plan, staging: Staging, path: Path) -> Path:
    """Write the plan to the new file `path`, with a digest of each file of contents. Raises RefusedError (it exists), OSError.

    The new files belong to the operator, the files they are copied from to the store: each is opened with the rights for it.
    """
    writer = Writer()
    path = path.absolute()
    directory = codec.contents_directory(path)
    with rights.of_starter():
        for taken in (path, directory):
            if beneath.exists(taken):
                raise RefusedError(f"{taken} exists already.", "Give --plan-out another name, or remove this one.")
    actions = tuple(_with_digest(action, staging) for action in plan.actions)
    names = [action.contents.file for action in actions if action.contents is not None and action.contents.file is not None]
    if names:
        with rights.of_starter():
            writer.mkdir(directory)
    for name in names:
        source = staging.directory / name
        with beneath.reading(source) as read, rights.of_starter():
            copies.copy_descriptor(writer, read, source, 0, os.fstat(read).st_size, directory / name)
    data = codec.encode(replace(plan, actions=actions))
    with rights.of_starter(), writer.create(path, 0o644) as descriptor:
        writer.write(descriptor, path, 0, data)
        writer.fsync(descriptor, path)
    return path


def _with_digest(action: Action, staging: Staging) -> Action:
    contents = action.contents
    if contents is None or contents.file is None:
        return action
    digest = fingerprint.digest(staging.directory / contents.file, 0, contents.length)
    return replace(action, contents=replace(contents, digest=digest))
