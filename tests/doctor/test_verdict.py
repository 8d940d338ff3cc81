"""The one function that derives class, headline and areas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqstore.catalogue import CATALOGUE, finding
from rmqstore.doctor.areas import Area, Effect, Harm, State
from rmqstore.doctor.verdict import HEADLINE, Class, Verdict, area_of, conclude
from rmqstore.findings import Finding, Severity

FILES = st.sampled_from(
    [None, "commitlog/0", "consumequeue/T/0/0", "config/consumerOffset.json", "config/delayOffset.json.bak", "elsewhere"]
)
FINDINGS = st.builds(
    lambda code, crashed, file: finding(code, "message", crashed=crashed, file=file),
    st.sampled_from(sorted(CATALOGUE)),
    st.booleans(),
    FILES,
)
EFFECTS = st.builds(
    Effect, st.sampled_from(Area), st.sampled_from(State), st.text(max_size=300), st.sampled_from(Harm), st.none() | st.integers(0, 10**12)
)
STARTS = st.sampled_from([True, None, False])
ORDER = list(Class)


@given(st.lists(EFFECTS, max_size=6), st.lists(FINDINGS, max_size=6), STARTS, st.none() | st.text(min_size=1))
def test_no_error_is_below_a_good_headline(
    effects: list[Effect], findings: list[Finding], starts: bool | None, unfinished: str | None
) -> None:
    found = conclude(effects, findings, starts=starts, unfinished=unfinished)
    if found.cls is Class.NOTHING_LOST:
        assert starts is True
        assert unfinished is None
        assert all(area.state is State.OK for area in found.areas)
        assert not [one for one in findings if one.severity is Severity.ERROR]
        assert not [one for one in effects if one.state is not State.OK]


@given(st.lists(EFFECTS, max_size=6), st.lists(FINDINGS, max_size=6), STARTS)
def test_the_class_is_the_worst_of_all(effects: list[Effect], findings: list[Finding], starts: bool | None) -> None:
    found = conclude(effects, findings, starts=starts)
    assert found.headline.startswith(found.cls)
    assert len(found.headline) <= HEADLINE
    assert [area.area for area in found.areas] == list(Area)
    for effect in effects:
        if starts is not None and effect.state is State.LOSES:
            assert ORDER.index(found.cls) <= ORDER.index(Class.STARTS_BUT)
        if effect.state is State.NOT_CHECKED:
            assert ORDER.index(found.cls) <= ORDER.index(Class.NOT_SURE)
        if effect.state is State.STOPS:
            assert found.cls is Class.DOES_NOT_START


@given(st.lists(EFFECTS, max_size=6), st.lists(FINDINGS, max_size=6), st.lists(EFFECTS, max_size=3))
def test_more_effects_never_make_it_better(effects: list[Effect], findings: list[Finding], more: list[Effect]) -> None:
    before = conclude(effects, findings, starts=True)
    assert ORDER.index(conclude([*effects, *more], findings, starts=True).cls) <= ORDER.index(before.cls)


def verdict_of(*effects: Effect, starts: bool | None = True) -> Verdict:
    return conclude(effects, [], starts=starts)


def test_the_worst_harm_is_named() -> None:
    found = verdict_of(
        Effect(Area.INDEX, State.LOSES, "queries by key miss 3 messages", Harm.UNREACHABLE, 3),
        Effect(Area.QUEUES, State.LOSES, "157 messages of orders/1 become invisible", Harm.INVISIBLE, 157),
        Effect(Area.OTHER, State.NOT_CHECKED, "compaction was not read"),
    )
    assert found.headline == "STARTS, BUT 157 messages of orders/1 become invisible (+ 2 more areas)"
    assert [(area.state, area.count) for area in found.areas if area.area is Area.QUEUES] == [(State.LOSES, 157)]


@pytest.mark.parametrize(
    ("starts", "effects", "headline"),
    [
        (True, [], "STARTS, NOTHING LOST"),
        (True, [Effect(Area.QUEUES, State.NOT_CHECKED, "RocksDB queues were not read")], "NOT SURE: RocksDB queues were not read"),
        (False, [Effect(Area.TOPICS, State.STOPS, "topics.json is damaged")], "DOES NOT START: topics.json is damaged"),
        (None, [Effect(Area.COMMIT_LOG, State.NOT_CHECKED, "a controller decides")], "NOT SURE: a controller decides"),
    ],
)
def test_headlines(starts: bool | None, effects: list[Effect], headline: str) -> None:
    assert verdict_of(*effects, starts=starts).headline == headline


def test_an_unfinished_repair_comes_first() -> None:
    effects = [Effect(Area.COMMIT_LOG, State.STOPS, "a file is too short")]
    found = conclude(effects, [], starts=False, unfinished="repair 1 was stopped in the middle")
    assert found.headline == "DOES NOT START: repair 1 was stopped in the middle (+ 1 more area)"


def test_what_cannot_be_read_is_not_checked() -> None:
    unreadable = finding("RMQ-ST-UNREADABLE", "cannot be read", file="config/delayOffset.json")
    assert area_of(unreadable) is Area.DELAYED
    found = conclude([], [unreadable], starts=True)
    assert found.headline == "NOT SURE: config/delayOffset.json could not be read"
