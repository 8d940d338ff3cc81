"""The version table: every release finds its profile, and nothing else does."""

from __future__ import annotations

import pytest

from rmqstore.errors import UsageError
from rmqstore.store.kinds.writer import RELEASES
from rmqstore.versions import PROFILES, AbnormalStart, NormalStart, profile_of, release_key


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_has_a_profile_that_covers_it(release: str) -> None:
    profile = profile_of(release)
    assert release_key(profile.since) <= release_key(release) <= release_key(profile.until)


def test_profiles_follow_one_another() -> None:
    borders = [release_key(release) for profile in PROFILES for release in (profile.since, profile.until)]
    assert borders == sorted(borders)


@pytest.mark.parametrize("text", ["4.2.0", "6.0.0", "5.3", "auto", "5.3.3-SNAPSHOT", ""])
def test_anything_else_is_refused_with_what_is_known(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        profile_of(text)
    assert "4.3.0 to 5.5.1" in refused.value.hint


@pytest.mark.parametrize(
    ("release", "normal", "abnormal"),
    [
        ("4.9.8", NormalStart.THIRD_LAST, AbnormalStart.HEADER_TIME),
        ("5.3.1", NormalStart.THIRD_LAST, AbnormalStart.HEADER_TIME),
        ("5.3.2", NormalStart.NAMED_WITHIN_QUEUES, AbnormalStart.HEADER_TIME),
        ("5.3.4", NormalStart.FIRST_RECORD, AbnormalStart.CHECKED_TIME),
        ("5.4.0", NormalStart.FIRST_RECORD, AbnormalStart.CHECKED_TIME),
        ("5.5.0", NormalStart.FIRST_RECORD, AbnormalStart.CHECKED_OFFSET),
    ],
)
def test_where_recovery_begins_changed_three_times(release: str, normal: NormalStart, abnormal: AbnormalStart) -> None:
    profile = profile_of(release)
    assert (profile.normal_start, profile.abnormal_start) == (normal, abnormal)
