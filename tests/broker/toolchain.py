"""The harnesses as something that can be run: jars from Maven, classes from javac.

Class paths and classes are kept in `.rmqstore-harness` of the checkout, the jars in Maven's own repository.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".rmqstore-harness"
OLDEST_JAVA = 17
_SHORT_LIVED = "-XX:TieredStopAtLevel=1"

# The harness reads private fields of the store, and the store those of the JDK.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.security.action",
)


@dataclass(frozen=True, slots=True)
class Kit:
    """Java sources (directories of `src`) and the pom that names the jars they need; `suffix` keeps the caches of a release apart."""

    pom: Path
    sources: tuple[str, ...]
    suffix: str = ""


STORE = Kit(HERE / "pom.xml", ("main",))
"""The store classes by themselves."""

WHOLE = Kit(HERE / "whole" / "pom.xml", ("main", "whole"), "-whole")
"""A broker with its name server and clients."""


LEDGER = Kit(HERE / "whole" / "pom.xml", ("main", "ledger"), "-ledger")
"""The log of a DLedger member by itself."""


CONTROLLED = Kit(HERE / "whole" / "pom.xml", ("main", "whole", "controller"), "-controlled")
"""A controller that chooses the master among brokers, from 5.0 on."""


class JarsMissing(Exception):
    """Maven cannot get the jars of a release; the text is what it said."""


@functools.cache
def missing() -> str | None:
    """Why the harness cannot run on this machine, None where it can."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    version = subprocess.run(["javac", "-version"], capture_output=True, text=True).stdout
    number = re.search(r"javac (\d+)", version)
    if number is None or int(number[1]) < OLDEST_JAVA:
        return f"Java {OLDEST_JAVA} or newer is needed, this is {version.strip() or 'unknown'}"
    return None


def java_command(release: str, transient: Path, *arguments: str) -> list[str]:
    """How to run the harness on the store classes of `release`. Raises JarsMissing.

    `transient`: an empty directory that the caller removes when Java has ended; libraries of machine code are unpacked there, 13 MB each.
    A heap of 3 GiB is what the recorded cases were made with: what a broker does with a record that claims to be 2 GiB long depends on it.
    """
    class_path = prepared(release)
    home = CACHE / release / "home"
    home.mkdir(exist_ok=True)
    return [*_jvm(home, transient, "-Xmx3g", f"-Doracle.version={release}"), "-cp", class_path, "oracle.Main", *arguments]


def whole_command(release: str, home: Path, transient: Path, *arguments: str, program: str = "oracle.Whole", kit: Kit = WHOLE) -> list[str]:
    """How to run a broker of `release` whose logs go to `home`. Raises JarsMissing. `transient` as in `java_command`."""
    options = (
        "-Xmx512m",
        "-XX:MaxDirectMemorySize=768m",
        _SHORT_LIVED,
        "-Djava.net.preferIPv4Stack=true",
        f"-Drocketmq.home.dir={home}",
        f"-Drmq.logback.configurationFile={home}/conf/logback_broker.xml",
        "-Drocketmq.client.logLevel=WARN",
    )
    return [*_jvm(home, transient, *options), "-cp", prepared(release, kit), program, *arguments]


def ledger_command(release: str, home: Path, transient: Path, *arguments: str) -> list[str]:
    """How to recover the log of a DLedger member with the jar that belongs to a release. Raises JarsMissing. `transient` as above."""
    return [*_jvm(home, transient, "-Xmx256m", _SHORT_LIVED), "-cp", prepared(release, LEDGER), "oracle.Ledger", *arguments]


def _jvm(home: Path, transient: Path, *options: str) -> list[str]:
    return [
        "java",
        "-Xms64m",
        "-XX:+UseSerialGC",
        f"-XX:ErrorFile={home}/hs_err_%p.log",
        f"-Duser.home={home}",
        f"-Djava.io.tmpdir={transient}",
        "-Duser.timezone=UTC",
        "-Dfile.encoding=UTF-8",
        *options,
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    ]


def prepared(release: str, kit: Kit = STORE) -> str:
    """The class path of a compiled harness for a release; resolved and compiled at the first call. Raises JarsMissing."""
    box = CACHE / f"{release}{kit.suffix}"
    with _alone():
        box.mkdir(exist_ok=True)
        jars = _jars(kit.pom, box / "classpath", f"-Drocketmq.version={release}")
        return f"{_classes(release, kit.sources, box, jars)}{os.pathsep}{jars}"


def class_path(name: str, pom: Path) -> str:
    """The jars that a pom names, resolved at the first call and kept under `name`. Raises JarsMissing."""
    box = CACHE / name
    with _alone():
        box.mkdir(exist_ok=True)
        return _jars(pom, box / "classpath")


@contextmanager
def _alone() -> Iterator[None]:
    """Test processes work side by side; Maven's repository does not like that."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _jars(pom: Path, kept: Path, *options: str) -> str:
    if kept.exists():
        jars = kept.read_text().strip()
        if all(Path(jar).exists() for jar in jars.split(os.pathsep)):
            return jars
    fresh = kept.with_suffix(".new")
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={fresh}"]
    environment = {"MAVEN_OPTS": _SHORT_LIVED, **os.environ}
    done = subprocess.run([*command, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise JarsMissing(done.stdout[-2000:])
    fresh.replace(kept)
    return kept.read_text().strip()


def _classes(release: str, parts: tuple[str, ...], box: Path, jars: str) -> Path:
    generation = "gen4" if release.startswith("4.") else "gen5"
    sources = sorted(path for part in (*parts, generation) for path in (HERE / "src" / part).rglob("*.java"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    classes = box / f"classes-{digest}"
    if not classes.is_dir():
        fresh = box / "classes-new"
        shutil.rmtree(fresh, ignore_errors=True)
        options = [f"-J{_SHORT_LIVED}", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(fresh), "-cp", jars]
        subprocess.run(["javac", *options, *map(str, sources)], check=True)
        fresh.rename(classes)
    return classes
