"""Runs as a program: rebuilds the index of a store into a staging area whose files lose their pages, as those of a full disk do."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from rmqstore.prediction.release import choose_release
from rmqstore.repair.derived.judgement import judge, present_log
from rmqstore.repair.derived.rebuild import rebuild_derived
from rmqstore.repair.derived.requests import IndexRequest, Planning
from rmqstore.repair.plan.builder import PlanBuilder
from rmqstore.repair.plan.staging import Staging
from rmqstore.store.root import Store


class Filling(Staging):
    """Every file is cut to nothing when it was mapped."""

    @property
    def is_full(self) -> bool:
        return True

    def open(self, relative_path: str, length: int) -> Any:
        array = super().open(relative_path, length)
        for path in self.directory.iterdir():
            os.truncate(path, 0)
        return array


def main() -> None:
    store = Store.open(Path(sys.argv[1]))
    planning = Planning(PlanBuilder(store, Filling(Path(sys.argv[2])), "test", choose_release(store, "auto").release))
    try:
        rebuild_derived(planning, store, present_log(store, judge(store).log), index=[IndexRequest()])
    except OSError as error:
        print(error.strerror)


if __name__ == "__main__":
    main()
