"""Configuration files that a broker has written by now: some come with the first topic or group, some ten seconds after its first start.

Observed on brokers of 4.9.7, 5.3.3 and 5.5.1 that were started on empty directories. Offsets of consumers, filters and delay levels are
written for the first time ten seconds after a start, also without any consumer. topics.json is written when a topic is created, and by a
clean stop; subscriptionGroup.json when a group is created, before its retry topic, and by a clean stop of 5.x.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rmqstore.doctor.checks.configfiles import ConfigFiles
from rmqstore.doctor.checks.lastrun import LastRun
from rmqstore.errors import RmqstoreError
from rmqstore.formats.naming import RETRY_PREFIX, is_broker_group, is_broker_topic
from rmqstore.store.liveness import Liveness
from rmqstore.verify.context import Context
from rmqstore.verify.parts import config
from rmqstore.verify.parts.config import CONSUMER_OFFSETS, DELAY_OFFSETS, GROUPS, LMQ_OFFSETS, TOPICS, State
from rmqstore.versions import Profile

_WRITTEN_WITH_OFFSETS = ("consumerFilter.json", "consumerOrderInfo.json", DELAY_OFFSETS)


class Due:
    """Configuration files that must exist, of those that a store lacks. `topics`: those that have queues."""

    def __init__(self, context: Context, files: ConfigFiles, profile: Profile, topics: frozenset[str], run: LastRun) -> None:
        self._context = context
        self._files = files
        self._profile = profile
        self._topics = topics
        self._run = run

    def lost(self, name: str) -> str | None:
        """Return why nothing is loaded of a file that must exist; None where something is, or where it was not written yet.

        A running broker writes while its store is read, so a missing file is looked for again.
        """
        why = self._files.lost(name)
        if why is None or self._files.texts[name].state is not State.MISSING:
            return why
        rules = {CONSUMER_OFFSETS: self._offsets, TOPICS: self._all_topics, GROUPS: self._groups}
        return why if rules[name]() and not self._is_there_now(name) else None

    def not_yet(self, name: str) -> bool:
        """Return whether a file is missing because the broker did not run long enough to write it."""
        return self._files.lost(name) is not None and self.lost(name) is None and not self._is_there_now(name)

    def table_now(self, name: str, key: str) -> Mapping[str, Any]:
        """Return a table of a file as it is by now, empty where there is none."""
        table = (self._now(name) or {}).get(key)
        return table if isinstance(table, dict) else {}

    def _offsets(self) -> bool:
        return self._stopped_cleanly or any(map(self._is_present, _WRITTEN_WITH_OFFSETS)) or self._run.took_long

    def _all_topics(self) -> bool:
        return self._stopped_cleanly or not all(map(is_broker_topic, self._topics)) or any(self._groups_of_users())

    def _groups(self) -> bool:
        return (self._stopped_cleanly and self._profile.newer_parts) or any(self._groups_of_users())

    # Evidence

    @property
    def _stopped_cleanly(self) -> bool:
        return self._run.stopped_cleanly(used=any(text.state is not State.MISSING for text in self._files.texts.values()))

    def _groups_of_users(self) -> Iterator[str]:
        """Yield groups of consumers that the rest of the store knows; a group is created before its retry topic and its offsets."""
        for name in (CONSUMER_OFFSETS, LMQ_OFFSETS):
            groups = (key.partition("@")[2] for key in self._files.table(name, "offsetTable"))
            yield from (group for group in groups if _is_of_a_user(group))
        yield from filter(_is_of_a_user, self._files.table(GROUPS, "subscriptionGroupTable"))
        topics = {*self._files.table(TOPICS, "topicConfigTable"), *self._topics}
        yield from (topic for topic in topics if topic.startswith(RETRY_PREFIX))

    def _is_present(self, name: str) -> bool:
        path = self._context.store.config_path / name
        return name in self._files.unreadable or path.exists() or path.with_name(name + ".bak").exists()

    def _is_there_now(self, name: str) -> bool:
        return self._now(name) is not None

    def _now(self, name: str) -> Mapping[str, Any] | None:
        try:
            return config.in_use(*config.read_both(self._context.store.config_path / name)).value
        except (RmqstoreError, OSError):
            return None


def running(liveness: Liveness) -> bool:
    """Return whether a broker runs on the store, by its lock, its open files, or the process that `abort` names."""
    return liveness.in_use or liveness.abort_pid_alive


def _is_of_a_user(group: str) -> bool:
    return group != "" and not is_broker_group(group)
