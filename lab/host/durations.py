# SPDX-License-Identifier: GPL-2.0-only
"""Durations of boots, tests and checks: the longest one starts first.

Those of the last run are in build/BASE/durations. checks/costs has what each check costs in
a first run in a fresh clone, without ccache and on 2 cores. Lines that start with # separate
measured costs from estimates; the rest has the format of checks/all --list. After a first
run, replace them all:

    { checks/all --list; checks/all --list --quick | grep ' (quick)'; } >checks/costs
"""

import re

from . import base_file, records

COSTS = records.TOP / "checks/costs"
COST = re.compile(r" *(\d+) +(\d+)  ((?:\S+ )?\S+(?: \(quick\))?)")
UNKNOWN = float("inf")


def _file(base, name):
    return records.BUILD.joinpath(base or base_file.NAME, "durations", *name)


def read(*name):
    """Return the seconds that something took the last time, UNKNOWN if it never ran."""
    try:
        return float(_file(None, name).read_text())
    except (FileNotFoundError, ValueError):
        return UNKNOWN


def _write_file(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write(seconds, *name):
    """Remember how long something took."""
    _write_file(_file(None, name), f"{seconds:.1f}\n")


def _name_file(title):
    """Return the file for a check: its title starts with the base if it is not independent."""
    base, _, rest = title.partition(" ")
    if base not in base_file.list_names():
        base, rest = base_file.NAME, title
    return _file(base, ("checks", rest))


def write_check(title, cpu, seconds):
    """Remember the seconds of CPU and the seconds that a check took."""
    _write_file(_name_file(title), f"{cpu:.1f} {seconds:.1f}\n")


def expect(title):
    """Return the seconds of CPU and the seconds that a check takes.

    That is what the last run took, or a line of checks/costs; both are None if neither
    exists.
    """
    try:
        cpu, seconds = _name_file(title).read_text().split()
    except (FileNotFoundError, ValueError):
        lines = COSTS.read_text().splitlines() if COSTS.is_file() else []
        found = [cost.groups() for cost in map(COST.fullmatch, lines) if cost]
        cpu, seconds = next((costs for *costs, name in found if name == title), (None, None))
    return (None, None) if cpu is None else (float(cpu), float(seconds))
