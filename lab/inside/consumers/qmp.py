# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's monitor protocol (QMP) and the statistics in its replies."""

import json
import socket


class Monitor:
    """A QMP connection."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        # Don't set a timeout: the time limit of the test machine applies.
        self.socket.connect(path)
        self.file = self.socket.makefile("rw")
        version = json.loads(self.file.readline())["QMP"]["version"]["qemu"]
        self.version = version["major"], version["minor"]
        self("qmp_capabilities")

    def query(self, command, arguments):
        """Return the complete reply to a command."""
        json.dump({"execute": command, "arguments": arguments}, self.file)
        self.file.flush()
        while "event" in (answer := json.loads(self.file.readline())):
            pass
        return answer

    def __call__(self, command, **arguments):
        return self.query(command, arguments)["return"]

    def run_human(self, command, cpu):
        """Return the lines printed by a command of the human monitor."""
        return self("human-monitor-command", **{
            "command-line": command, "cpu-index": cpu}).splitlines()


def normalize_value(value):
    """Convert QEMU's value to the form of the fd; QEMU reverses the list of a histogram."""
    return value[::-1] if isinstance(value, list) else [int(value)]


def parse_values(result):
    """Return the values of one VM or vCPU in a reply, by name."""
    found = {stat["name"]: normalize_value(stat["value"]) for stat in result["stats"]}
    assert len(found) == len(result["stats"]) and result["provider"] == "kvm"
    return found
