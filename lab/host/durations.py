# SPDX-License-Identifier: GPL-2.0-only
"""How long things took the last time, so that what takes longest begins first."""

import records

FOLDER = records.OF_BASE / "durations"
UNKNOWN = float("inf")


def last(*name):
    """Seconds; what is not known may take long."""
    try:
        return float(FOLDER.joinpath(*name).read_text())
    except (FileNotFoundError, ValueError):
        return UNKNOWN


def keep(seconds, *name):
    """How long it took now."""
    path = FOLDER.joinpath(*name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{seconds:.1f}\n")
