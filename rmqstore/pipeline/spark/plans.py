"""Checks of Spark's plans before they run: whether they only read, and which columns of the tables they need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from rmqstore.errors import UsageError
from rmqstore.pipeline.sqlresult import READ_ONLY
from rmqstore.pipeline.tables.registry import TABLE_NAMES, find_table
from rmqstore.pipeline.tables.table import schema

Plan = Any
"""A logical plan, as an object of Java."""

_CATALYST = "org.apache.spark.sql.catalyst.plans.logical."
_WRITING = re.compile(r"Insert|Append|Overwrite|Replace|Merge|Update|Delete|Create|Compound")


def require_reading(session: SparkSession, plan: Plan) -> None:
    """Raise UsageError for a statement that does more than read."""
    gateway = session.sparkContext._gateway
    for node in _nodes(plan):
        commands = any(is_instance_of(gateway, node, _CATALYST + kind) for kind in ("Command", "ParsedStatement"))
        if commands or _WRITING.search(node.getClass().getSimpleName()):
            raise UsageError("This statement does more than read.", READ_ONLY)


def optimized(session: SparkSession, plan: Plan) -> Plan:
    """Return what Spark makes of a plan before it decides how to run it. Raises AnalysisException."""
    state = session._jsparkSession.sessionState()
    return state.executePlan(plan, getattr(state, "executePlan$default$2")()).optimizedPlan()


@dataclass(frozen=True, slots=True)
class Need:
    """The part of a table that a query needs: columns, in the order of the table, and how often it reads the table."""

    columns: Sequence[str] = ()
    times: int = 0


def needs(plan: Plan) -> Mapping[str, Need]:
    """Return what an optimized plan over shapes needs of the tables that it reads."""
    names = {name: tuple(schema(find_table(name)).names) for name in TABLE_NAMES}
    shapes = {columns: name for name, columns in names.items()}
    found: dict[str, list[set[str]]] = {}
    for above, below in [(None, plan), *((node, child) for node in _nodes(plan) for child in _children(node))]:
        used: set[str] = set()
        while below.nodeName() == "Filter":
            used |= _names(below.references())
            (below,) = _children(below)
        columns = tuple(attribute.name() for attribute in _listed(below.output()))
        if not _children(below) and columns in shapes and (above is None or above.nodeName() != "Filter"):
            # A projection between a table and everything above it decides which columns pass; without it all do.
            used |= _names(above.references()) if above is not None and above.nodeName() == "Project" else set(columns)
            found.setdefault(shapes[columns], []).append(used)
    return {name: Need([column for column in names[name] if column in set().union(*used)], len(used)) for name, used in found.items()}


def gathers(plan: Plan) -> bool:
    """Return whether rows are aggregated, so that results have other sizes than what is read."""
    return any(node.nodeName() == "Aggregate" for node in _nodes(plan))


def _nodes(plan: Plan) -> Iterator[Plan]:
    """Yield a plan and all plans inside of it, those of subqueries too."""
    yield plan
    for child in (*_children(plan), *_listed(plan.subqueries())):
        yield from _nodes(child)


def _children(plan: Plan) -> list[Plan]:
    return _listed(plan.children())


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _names(attributes: Any) -> set[str]:
    return {attribute.name() for attribute in _listed(attributes.toSeq())}
