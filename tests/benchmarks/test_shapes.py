"""The growth of commands in each dimension of a store: what is made, what is measured, and what is reported."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import shapes
from benchmarks.shapes import COMMANDS, DIMENSIONS, Growth, Point, slope
from benchmarks.wide import WideShape, make_wide_store
from tests.support.cli import rmqstore


def test_the_slope_of_a_power_is_its_exponent() -> None:
    assert slope([(0, 1), (1, 3), (2, 5)]) == pytest.approx(2)
    points = {size: Point(0.5 + 0.001 * size**1.5, 1 << 20) for size in (100, 400, 1600)}
    growth = Growth("queues", "verify", points, 0.5)
    assert growth.exponent == pytest.approx(1.5)
    (line,) = shapes.lines([growth])
    assert (line.name, line.ratio, line.met) == ("queues, 0 100 400 1,600: verify", "1.50", False)


def test_what_does_not_grow_has_no_exponent() -> None:
    growth = Growth("queues", "verify", {size: Point(0.51, 1 << 20) for size in (100, 400, 1600)}, 0.5)
    (line,) = shapes.lines([growth])
    assert (growth.exponent, line.ratio, line.met) == (None, "", None)


def test_damaged_records_are_found(tmp_path: Path) -> None:
    store = make_wide_store(tmp_path / "store", WideShape(topics=2, messages=5))
    shapes.damage_bodies(store.root, 7)
    run = rmqstore("verify", store.root, "--format", "json", "--quiet", "--all", *store.settings)
    assert run.objects[-1]["codes"]["RMQ-CL-CRC"] == 7


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda one: one.name)
def test_a_dimension_is_a_factor_in_size(dimension: shapes.Dimension) -> None:
    small, middle, large = dimension.sizes(1)
    assert (4 * small, 4 * middle, large) == (middle, large, dimension.largest)
    described = [str(dimension.shape(size)) for size in (0, small, large)]
    assert len(set(described)) == 3 or dimension.damage is shapes.damage_bodies


@pytest.mark.exhaustive  # 36 whole processes
def test_every_command_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "DIMENSIONS", [replace(DIMENSIONS[2], largest=32)])
    growths = list(shapes.measure_shapes(tmp_path, quick=False, say=lambda text: None))
    assert [growth.command for growth in growths] == list(COMMANDS)
    for growth in growths:
        assert list(growth.points) == [2, 8, 32]
        assert all(point.seconds > 0 and point.peak > 1 << 20 for point in (*growth.points.values(), Point(growth.start, 1 << 21)))
    assert len(list(shapes.lines(growths))) == len(json.loads(json.dumps(shapes.as_json(growths)))) == len(COMMANDS)
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with status 4"):
        shapes._run(["verify", str(tmp_path / "missing")], 0)


def test_the_option_is_listed() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "--help"], capture_output=True, text=True, check=True)
    assert "--shapes" in done.stdout
    assert "--quick" in done.stdout
