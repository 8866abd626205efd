# SPDX-License-Identifier: GPL-2.0-only
"""Judge a boot by its console, its result channel and the output of its programs."""

import itertools
import re

# Lines of the Test Anything Protocol (TAP), as checks, programs of the lab and selftests print
# them.
RESULT = re.compile(r"(not )?ok\b(?: +(\d+)\b)?(?: +-)? *(.*)$")
PLAN = re.compile(r"1\.\.(\d+)")
SKIPPED = re.compile(r"# *SKIP\b", re.I)
# A boot with any of these kernel messages fails.
SPLAT = re.compile("|".join((
    r"WARNING: ", r"\bBUG:", r"kernel BUG at", r"cut here \]",
    r"Kernel panic", r"\bOops\b", r"Call Trace:", r"Internal error:",
    r"Unable to handle kernel", r"unable to handle", r"general protection",
    r"Bad page state", r"KASAN:", r"UBSAN:", r"rcu: INFO:", r"INFO: rcu",
    r"INFO: task .* blocked for more than", r"INFO: possible recursive",
    r"INFO: trying to register non-static", r"soft lockup", r"hard LOCKUP",
    r"corruption", r"Objects remaining in", r"Slab cache still has objects",
    r"Kernel memory (?:exposure|overwrite) attempt", r"refcount_t:",
    # SLUB: "BUG kmalloc-64 (Tainted: G B): Poison overwritten".
    r"\bBUG \S+ \(.*\): ", r"ODEBUG disabled",
    # A checker that has turned itself off finds nothing.
    r"turning off the locking correctness validator",
    r"kmemleak: .*disabled", r"^init: ")))
# A report of KCSAN up to the line at its end.
RACE = re.compile(r"^.*BUG: KCSAN: .*\n(?:(?!.*={60}).*\n)*.*={60}$", re.M)

# The function that accesses the data, a helper of KCSAN or a copy function, and the caller.
FRAMES = 3


def find_races(console):
    """Return the reports of data races in a console log, each as text."""
    return RACE.findall(console)


def has_function(report, functions, library):
    """Return True if one of these functions chose the data of a race.

    A function that accesses data chose it, unless it belongs to the library: then its caller
    did. Other functions further up only call code of the base, such as capable(), which has its
    own races.
    """
    depth = 0
    for line in report.splitlines():
        frame = re.search(r"(\w+)[.\w]*\+0x", line)
        if not frame:
            depth = 0
        elif depth < FRAMES:
            if frame[1] in functions:
                return True
            depth = depth + 1 if frame[1] in library else FRAMES
    return False


def remove_other_races(console, is_ours):
    """Return a console log without the reports of races for which is_ours() is False.

    Lines printed by other CPUs within a report are kept.
    """
    def replace(race):
        if is_ours(race[0]):
            return race[0]
        return race[0].partition("\n")[2]

    return RACE.sub(replace, console)


def find_splats(console):
    """Return the lines of a console log that a healthy kernel never prints."""
    return [line.strip() for line in console.splitlines()
            if SPLAT.search(line)]


class Channel:
    """Parses the result channel; incomplete until init reports the end."""

    def __init__(self):
        self.ended = False
        self.running = None
        self.status = {}
        self.output = {}
        self._rest = b""

    def feed(self, data):
        """Parse some bytes; return their events, (kind, name, text)."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [self._parse_line(line) for line in lines]

    def _parse_line(self, line):
        kind, _, text = line.partition(b" ")
        words = text.decode(errors="replace").split()
        if self.ended:
            pass
        elif kind in (b"|", b">") and self.running:
            text += b"\n" if kind == b"|" else b""
            self.output[self.running] += text
            return "output", self.running, text
        elif kind == b"begin" and len(words) == 1 and not self.running:
            self.running = words[0]
            self.output[self.running] = b""
            return "begin", self.running, b""
        elif kind == b"exit" and len(words) == 2 and words[0] == self.running:
            self.running = None
            self.status[words[0]] = int(words[1])
            return "exit", words[0], b""
        elif line == b"end" and not self.running:
            self.ended = True
            return "end", None, b""
        raise ValueError(f"result channel: unexpected {line!r}")


class Result:
    """One result in TAP; number is None if the line has none, text is the rest of the line."""

    def __init__(self, found):
        self.number = int(found[2]) if found[2] else None
        self.text = found[3]
        self.skipped = not found[1] and bool(SKIPPED.search(self.text))
        self.passed = not found[1] and not self.skipped
        self.failed = bool(found[1])


def parse_result(line):
    """Return the Result in a line, or None."""
    found = RESULT.match(line)
    return found and Result(found)


def tap(output, status, level):
    """Judge the output of a TAP program; return (passed, text)."""
    plan, numbers, bad, skipped = None, [], [], []
    for line in output.splitlines():
        if planned := PLAN.match(line):
            if plan is not None:
                return False, "two plans"
            plan = int(planned[1])
        elif result := parse_result(line):
            numbers.append(result.number or len(numbers) + 1)
            if result.failed:
                bad.append(line)
            elif result.skipped:
                skipped.append(line)
    count = f"{len(numbers) - len(skipped)} ok"
    if skipped:
        count += f", {len(skipped)} skipped"
    if bad:
        return False, f"{len(bad)} not ok: {bad[0]}"
    if plan is None:
        return False, f"no plan, exit status {status}"
    if numbers != list(range(1, plan + 1)):
        return False, f"planned 1..{plan}, saw {len(numbers)} results"
    if skipped and level == "guest":
        return False, f"skipped although guests run: {skipped[0]}"
    if len(numbers) == len(skipped):
        return False, "nothing was tested"
    if status:
        return False, f"exit status {status} after {count}"
    return True, count


def example(output, status, expected, expected_status=0):
    """Compare an output with the documented one, in which a number other than 0 stands for any
    other; return (passed, text)."""
    if status != expected_status:
        return False, f"exit status {status}: {output.strip()}"
    lines, documented = ([re.sub(r"\b[1-9]\d*\b", "N", line) for line in text.splitlines()]
                         for text in (output, expected))
    for got, want in itertools.zip_longest(lines, documented):
        if got != want:
            return False, f"{got}, documented: {want}"
    return True, f"{len(lines)} lines as documented"


def listing(output, status, recorded, added_by_series=""):
    """Compare a listing with the recorded one and the lines that the series add to it; return
    (passed, text)."""
    lines, expected = output.splitlines(), added_by_series.splitlines()
    wanted = recorded.splitlines()
    if status:
        return False, f"exit status {status}"
    if missing := [line for line in wanted if line not in lines]:
        return False, f"{len(missing)} missing: {missing[0]}"
    if missing := [line for line in expected if lines.count(line) != 1]:
        return False, f"{len(missing)} of the series missing: {missing[0]}"
    lines = [line for line in lines if line not in expected]
    if added := [line for line in lines if line not in wanted]:
        return False, f"{len(added)} not in the base: {added[0]}"
    if lines != wanted or not lines:
        return False, "order or number differ from the base's"
    return True, f"{len(lines)} files" + (f" and {len(expected)} of the series" if expected else "")
