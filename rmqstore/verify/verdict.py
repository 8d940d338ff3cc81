"""The answer of a verification in one line: never more than what was looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqstore.store.parts import PartKind
from rmqstore.verify.context import Options
from rmqstore.verify.unchecked import NotChecked
from rmqstore.wording import counted


def verdict(errors: int, not_checked: Sequence[NotChecked], limits: Sequence[str], known: int = 0) -> str:
    """Return the verdict: `errors` are new ones, `known` those that were reported before, `limits` what was left out on request."""
    areas = list(dict.fromkeys(one.area for one in not_checked))
    was = "was" if len(areas) == 1 and areas[0].endswith("/") else "were"
    rest = [*([f"{_listed(areas)} {was} not read in depth"] if areas else []), *limits]
    if errors:
        return "; ".join([counted(errors, "error"), *rest])
    head = f"no new error, {counted(known, 'finding')} known before" if known else "HEALTHY"
    return f"{head} as far as looked: {'; '.join(rest)}" if rest else head


def limits_of(options: Options, only: PartKind | None) -> Iterator[str]:
    """Yield what a verification does not look at because of its options, or because no more of the store is there."""
    if only is not None:
        yield f"this is a part of a store, {only.value}"
    if options.parts:
        yield f"only {_listed(sorted(options.parts))} was requested"
    if options.topics:
        yield f"of queues only those of {_listed(sorted(options.topics))}"
    if options.queues:
        named = sorted((topic or "every topic", queue_id) for topic, queue_id in options.queues)
        yield f"of queues only {_listed([f'{topic}/{queue_id}' for topic, queue_id in named])}"
    if options.quick:
        yield "bodies were not read"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
