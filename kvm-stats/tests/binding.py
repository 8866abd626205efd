#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The library from Python, without a header: how the time of all vCPUs was spent."""

import ctypes
import sys
import time

lib = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libkvmstats.so.1")
for name in ("first", "next", "vm_times", "table", "find", "vm_values"):
    getattr(lib, "kvmstats_" + name).restype = ctypes.c_void_p
for name in ("source", "source_why", "vm_text", "mode_name"):
    getattr(lib, "kvmstats_" + name).restype = ctypes.c_char_p
for name in ("vm_number", "times_mode", "times_elapsed", "value"):
    getattr(lib, "kvmstats_" + name).restype = ctypes.c_uint64

handle = ctypes.c_void_p()
error = lib.kvmstats_open_source(ctypes.byref(handle), None, None, True)
if error:
    sys.exit(f"kvmstats_open_source: {error}")
print("source", lib.kvmstats_source(handle).decode(),
      lib.kvmstats_source_why(handle).decode())
for _ in range(2):
    lib.kvmstats_sample(handle)
    time.sleep(0.2)
exits = ctypes.c_void_p(lib.kvmstats_find(ctypes.c_void_p(lib.kvmstats_table(handle, 1)), b"exits"))
vm = ctypes.c_void_p(lib.kvmstats_first(handle))
while vm:
    times = ctypes.c_void_p(lib.kvmstats_vm_times(vm, False))
    modes = {lib.kvmstats_mode_name(mode).decode(): lib.kvmstats_times_mode(times, mode)
             for mode in range(7)}
    values = ctypes.c_void_p(lib.kvmstats_vm_values(vm, 1, True))
    print(lib.kvmstats_vm_text(vm, b"label").decode(errors="replace"),
          lib.kvmstats_vm_number(vm, b"pid"), lib.kvmstats_vm_number(vm, b"vcpus"),
          lib.kvmstats_value(exits, values, 0) if exits and values else "-", modes,
          "adds up" if sum(modes.values()) == lib.kvmstats_times_elapsed(times) else "does not")
    vm = ctypes.c_void_p(lib.kvmstats_next(vm))
lib.kvmstats_close(handle)
