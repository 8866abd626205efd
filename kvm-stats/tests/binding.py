#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The Python module with a VM of tests/vmm.c, if a source works here. Prints TAP. PYTHON is the
directory of kvmstats.py.

usage: tests/binding.py DIR PYTHON
"""
import errno
import sys
import time
from contextlib import redirect_stdout
from io import StringIO

from common import USAGE, Vmm, finish, result

if len(sys.argv) != 3:
    sys.exit(USAGE)
sys.path.insert(0, sys.argv[2])
import kvmstats  # noqa: E402


def raises(**options):
    """Return the errno with which the library cannot be opened."""
    try:
        with kvmstats.Host(**options):
            return 0
    except OSError as error:
        return error.errno


result(raises(source="nothing") == errno.EINVAL, "a source that does not exist: EINVAL")
result(raises(flags=1 << 31) == errno.EINVAL, "an unknown flag: EINVAL")
result(raises(flags=kvmstats.WAIT) == 0, "with WAIT, the library opens without a source")
result(kvmstats.MODES[:2] == ["run", "ready"] and kvmstats.EVENTS[0] == "exits",
       "modes and events have names")
try:
    statistics = kvmstats.statistics()
except OSError as error:
    statistics = []
    result(error.errno in (errno.ENOENT, errno.EACCES, errno.ENOSYS) and error.strerror,
           f"without /dev/kvm or statistics files, listing the statistics fails: {error}")
else:
    exits = [each for each in statistics if each[:2] == (kvmstats.VCPU, "exits")]
    result([each[2:7] for each in exits] == [("cumulative", "none", 1, 1, 0)],
           f"{len(statistics)} statistics are listed, exits with type and unit: {exits}")
    result(sum(bool(each.description) for each in statistics) > len(statistics) / 2,
           "statistics have descriptions")
    result({(each.unit, each.scale) for each in statistics if each.name.endswith("_ns")} <=
           {("seconds", 1e-9)}, "the scale of nanoseconds is 1e-9 seconds")
if not raises():
    vmm = Vmm("binding", "-k", vcpus=2)
    with kvmstats.Host() as host:
        host.sample()
        time.sleep(0.2)
        found = [vm for vm in host.sample() if vm.pid == vmm.pid]
        result(len(found) == 1, f"the VM is found by the source {host.source}")
        for vm in found:
            vcpus = vm.vcpu_list()
            result(len(vcpus) == vm.vcpus == 2 and vcpus[1].id > vcpus[0].id >= 0 < vcpus[0].tid,
                   "the VM has two vCPUs with threads")
            result(not vm.ended and vm.elapsed > 100000000 and vm.machine == "",
                   f"members have values: {vm.label} {vm.name} {vm.elapsed}")
            last = vm.times(last=True)
            result(abs(sum(last.values()) / vm.elapsed / 2 - 1) < 0.5, f"times add up: {last}")
            result(all(sum(vcpu.times(last=True).values()) for vcpu in vcpus) and
                   "exits" in vcpus[0].events(), "each vCPU has times and events")
            result(vm.total("exits") == sum(vcpu.total("exits") for vcpu in vcpus) > 0,
                   f"totals are the sums over the vCPUs: {vm.total('exits')} exits")
            histograms = [each for each in statistics if each.size > 1]
            totals = [vm.total(each.name, each.scope) for each in histograms]
            result(all(isinstance(total, list) for total in totals) and
                   list(map(len, totals)) == [each.size for each in histograms],
                   "the total of a histogram is a list")
            result(vm.total("no_such") is None and vm.total("exits", kvmstats.VM) is None,
                   "statistics that do not exist are None")
            result(list(vm.other_threads()) == kvmstats.ROLES, "other threads have roles")
        text = StringIO()
        with redirect_stdout(text):
            kvmstats.print_metrics()
        result('kvm_vm_vcpu_seconds_total{vm="binding' in text.getvalue(), "the exporter prints the VM")
finish()
