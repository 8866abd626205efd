# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's own protocol (QMP), and the statistics in its answers."""

import json
import socket


class Monitor:
    """A QMP connection."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        # Who waits for ever is ended by the limit of the machine.
        self.socket.connect(path)
        self.file = self.socket.makefile("rw")
        version = json.loads(self.file.readline())["QMP"]["version"]["qemu"]
        self.version = version["major"], version["minor"]
        self("qmp_capabilities")

    def answer(self, command, arguments):
        """The whole answer to a command."""
        json.dump({"execute": command, "arguments": arguments}, self.file)
        self.file.flush()
        while "event" in (answer := json.loads(self.file.readline())):
            pass
        return answer

    def __call__(self, command, **arguments):
        return self.answer(command, arguments)["return"]

    def human(self, command, cpu):
        """What a person sees, lines."""
        return self("human-monitor-command", **{
            "command-line": command, "cpu-index": cpu}).splitlines()


def plain(value):
    """QEMU's value as the fd has it: a histogram's list is reversed there."""
    return value[::-1] if isinstance(value, list) else [int(value)]


def values(result):
    """The values of one VM or vCPU of an answer, by name."""
    found = {stat["name"]: plain(stat["value"]) for stat in result["stats"]}
    assert len(found) == len(result["stats"]) and result["provider"] == "kvm"
    return found
