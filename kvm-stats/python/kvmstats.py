# SPDX-License-Identifier: LGPL-2.1-or-later
"""libkvmstats in Python: the statistics of all VMs and vCPUs of a host.

    import kvmstats, time

    with kvmstats.Host() as host:
        while True:
            for vm in host.sample():
                print(vm.label, vm.pid, vm.times()["ready"], vm.total("exits"))
            time.sleep(1)

A VM and its vCPUs are valid until the next sample. Times are nanoseconds; libkvmstats(3)
explains all values. statistics() lists the statistics of this kernel. Run as a program, this
module prints metrics for Prometheus.
"""
import ctypes
import os
from itertools import count, takewhile
from typing import NamedTuple

VM, VCPU = range(2)
WAIT = 1
TYPES = {"v": None, "p": ctypes.c_void_p, "s": ctypes.c_char_p, "b": ctypes.c_bool, "i": ctypes.c_int,
         "u": ctypes.c_uint, "q": ctypes.c_uint64, "z": ctypes.c_size_t,
         "P": ctypes.POINTER(ctypes.c_void_p)}
# Functions with the types of their results and arguments
FUNCTIONS = """open:iPssu close:vp source:sp sample:ip problem:sp first:pp next:pp table:ppi find:pps
    value:qppu mode_name:si event_name:si role_name:si vm_vcpu:ppu vm_times:pp vcpu_times:pp
    vm_last_times:pp vcpu_last_times:pp
    times_mode:qpi times_known:bpi vm_activity:pp vcpu_activity:pp activity_event:qpi
    activity_known:bpi vm_other_threads:qpi vm_totals:ppi vcpu_totals:pp describe:iPPsz
    free_table:vp description:sis desc:ppu desc_name:sp desc_type:up desc_unit:up desc_base:up
    desc_exponent:ip desc_size:up desc_bucket_size:up"""
VM_MEMBERS = """label:s name:s domain:s uuid:s vmm:s machine:s pod_uid:s container_id:s cgroup:s pid:i
    id:q started:q nth:u first_sample:b ended:b ended_at:q time:q elapsed:q vcpus_ambiguous:b vcpus:u"""
VCPU_MEMBERS = "id:u tid:i first_sample:b"

_lib = ctypes.CDLL(os.environ.get("LIBKVMSTATS", "libkvmstats.so.1"))


def _declare(name, types):
    """Return the function of the library with this name."""
    function = getattr(_lib, "kvmstats_" + name)
    function.restype, *function.argtypes = (TYPES[letter] for letter in types)
    return function


_call = {word.split(":")[0]: _declare(*word.split(":")) for word in FUNCTIONS.split()}
MODES, EVENTS, ROLES = ([name.decode() for i in range(64) if (name := _call[kind](i))]
                        for kind in ("mode_name", "event_name", "role_name"))
STATISTIC_TYPES = ("cumulative", "instant", "peak", "linear_hist", "log_hist")
UNITS = ("none", "bytes", "seconds", "cycles", "boolean")


class Statistic(NamedTuple):
    """A statistic: its value multiplied by scale is in the unit."""

    scope: int
    name: str
    type: str
    unit: str
    scale: float
    size: int
    bucket_size: int
    description: str


def _enumerator(names, index):
    """Return the name of an enumerator, or its number if a later kernel has added it."""
    return names[index] if index < len(names) else str(index)


def _statistic(scope, desc):
    """Return the statistic with this descriptor."""
    name = _call["desc_name"](desc)
    return Statistic(scope, name.decode(), _enumerator(STATISTIC_TYPES, _call["desc_type"](desc)),
                     _enumerator(UNITS, _call["desc_unit"](desc)),
                     (10, 2)[_call["desc_base"](desc) == 1] ** _call["desc_exponent"](desc),
                     _call["desc_size"](desc), _call["desc_bucket_size"](desc),
                     _call["description"](scope, name).decode())


def statistics():
    """Return all statistics of this kernel; raises OSError if /dev/kvm cannot be used."""
    tables, why = (ctypes.c_void_p(), ctypes.c_void_p()), ctypes.create_string_buffer(256)
    error = _call["describe"](ctypes.byref(tables[VM]), ctypes.byref(tables[VCPU]), why, len(why))
    if error:
        raise OSError(-error, why.value.decode())
    found = []
    for scope, table in enumerate(tables):
        descs = takewhile(bool, (_call["desc"](table, i) for i in count()))
        found += [_statistic(scope, desc) for desc in descs]
        _call["free_table"](table)
    return found


class _Object:
    """What VMs and vCPUs have in common"""

    def __init__(self, host, pointer):
        self._host, self._pointer = host, pointer

    def times(self, last=False):
        """Return {mode: nanoseconds} since it was first seen, or since the previous sample."""
        times = _call[self.prefix + ("_last_times" if last else "_times")](self._pointer)
        return {name: _call["times_mode"](times, mode) for mode, name in enumerate(MODES)
                if _call["times_known"](times, mode) or name == "unknown"}

    def events(self):
        """Return {event: number} since the previous sample."""
        activity = _call[self.prefix + "_activity"](self._pointer)
        return {name: _call["activity_event"](activity, event) for event, name in enumerate(EVENTS)
                if _call["activity_known"](activity, event)}

    def total(self, statistic, scope=VCPU):
        """Return the total of a statistic, of a VM over all vCPUs; None if there is none.

        The total of a histogram is a list, with a count for each bucket.
        """
        table, values = _call["table"](self._host, scope), self._totals(scope)
        desc = _call["find"](table, statistic.encode()) if table else None
        if not desc or not values:
            return None
        totals = [_call["value"](desc, values, i) for i in range(_call["desc_size"](desc))]
        return totals if len(totals) > 1 else totals[0]


class Vcpu(_Object):
    """A vCPU: id, tid and first_sample are attributes."""

    prefix = "vcpu"

    def _totals(self, _):
        return _call["vcpu_totals"](self._pointer)


class Vm(_Object):
    """A VM: label, name, pid and so on are attributes."""

    prefix = "vm"

    def _totals(self, scope):
        return _call["vm_totals"](self._pointer, scope)

    def vcpu_list(self):
        """Return the vCPUs in order of id."""
        return [Vcpu(self._host, _call["vm_vcpu"](self._pointer, i)) for i in range(self.vcpus)]

    def other_threads(self):
        """Return {role: nanoseconds} of the threads that are not vCPUs."""
        return {name: _call["vm_other_threads"](self._pointer, i) for i, name in enumerate(ROLES)}


for _class, _members in ((Vm, VM_MEMBERS), (Vcpu, VCPU_MEMBERS)):
    for _name, _letter in (word.split(":") for word in _members.split()):
        def _get(self, function=_declare(f"{_class.prefix}_{_name}", _letter + "p")):
            value = function(self._pointer)
            return value.decode(errors="replace") if isinstance(value, bytes) else value
        setattr(_class, _name, property(_get))


class Host:
    """The VMs of a host; raises OSError if no source works, unless flags has WAIT."""

    def __init__(self, source=None, proc=None, flags=0):
        self._k = ctypes.c_void_p()
        error = _call["open"](ctypes.byref(self._k), source and source.encode(),
                              proc and proc.encode(), flags)
        if error:
            raise OSError(-error, "no source works")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _call["close"](self._k)

    @property
    def source(self):
        """The name of the source in use"""
        return _call["source"](self._k).decode()

    def sample(self):
        """Read all values, and return the VMs."""
        error = _call["sample"](self._k)
        if error:
            raise OSError(-error, _call["problem"](self._k).decode())
        vms, pointer = [], _call["first"](self._k)
        while pointer:
            vms.append(Vm(self._k, pointer))
            pointer = _call["next"](pointer)
        return vms


def print_metrics():
    """Print how the vCPUs of all VMs spent their time, for Prometheus."""
    with Host(flags=WAIT) as host:
        print("# TYPE kvm_vm_vcpu_seconds_total counter")
        for vm in host.sample():
            label = vm.label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            for mode, time in vm.times().items():
                print(f'kvm_vm_vcpu_seconds_total{{vm="{label}",mode="{mode}"}} {time / 1e9:.9f}')


if __name__ == "__main__":
    print_metrics()
