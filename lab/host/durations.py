# SPDX-License-Identifier: GPL-2.0-only
"""Durations of boots, tests and checks on this machine: the longest one starts first.

Those of the last run are in build/BASE/durations.
"""

from . import base_file, records

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


def read_check(title):
    """Return the seconds of CPU and the seconds of a check's last run, UNKNOWN if none passed."""
    try:
        cpu, seconds = _name_file(title).read_text().split()
        return float(cpu), float(seconds)
    except (FileNotFoundError, ValueError):
        return UNKNOWN, UNKNOWN
