# SPDX-License-Identifier: GPL-2.0-only
"""Make system calls in a running VMM.

KVM accepts ioctls on vCPUs only from the VMM's own process. So stop one of its threads with
ptrace(), make it execute the system call, and resume it.
"""

import contextlib
import ctypes
import os
import struct
import time
from pathlib import Path

import consumer

KVM_ENABLE_CAP = 0x4068aea3
KVM_CAP_ENFORCE_PV_FEATURE_CPUID = 190

SYS_IOCTL = 16
SYSCALL = b"\x0f\x05"
PTRACE_SINGLESTEP, PTRACE_GETREGS, PTRACE_SETREGS = 9, 12, 13
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
# Distance below the stack pointer where the stack is unused.
SCRATCH = 16384

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


class Registers(ctypes.Structure):
    """struct user_regs_struct"""
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs "
        "eflags rsp ss fs_base gs_base ds es fs gs").split()]


def ptrace(request, pid, data=None):
    """Call ptrace(); raise OSError if it fails."""
    if LIBC.ptrace(request, pid, None, data):
        raise OSError(ctypes.get_errno(), f"ptrace request {request}")


@contextlib.contextmanager
def stop_in_system_call(pid):
    """Stop the first thread of a process after a SYSCALL instruction; yield its registers."""
    while True:
        ptrace(PTRACE_ATTACH, pid)
        os.waitpid(pid, 0)
        registers = Registers()
        ptrace(PTRACE_GETREGS, pid, ctypes.addressof(registers))
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(registers.rip - len(SYSCALL))
            in_call = memory.read(len(SYSCALL)) == SYSCALL
        try:
            if in_call:
                yield registers
                return
        finally:
            # With the original registers, the kernel restarts the interrupted system call.
            ptrace(PTRACE_SETREGS, pid, ctypes.addressof(registers))
            ptrace(PTRACE_DETACH, pid)
        time.sleep(0.01)


def call_ioctl(pid, link, request, data):
    """Call ioctl() in a process, on the descriptor with this link target in /proc."""
    fd = next(fd for fd, other in consumer.read_links(pid).items() if other == link)
    with stop_in_system_call(pid) as registers:
        at = (registers.rsp - SCRATCH) & ~15
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(at)
            memory.write(data)
        call = Registers.from_buffer_copy(registers)
        call.rip -= len(SYSCALL)
        call.rax, call.rdi, call.rsi, call.rdx = SYS_IOCTL, fd, request, at
        # Prevent the kernel from restarting this call.
        call.orig_rax = 2**64 - 1
        ptrace(PTRACE_SETREGS, pid, ctypes.addressof(call))
        ptrace(PTRACE_SINGLESTEP, pid)
        os.waitpid(pid, 0)
        ptrace(PTRACE_GETREGS, pid, ctypes.addressof(call))
    if call.rax:
        raise OSError(2**64 - call.rax, f"ioctl {request:#x} of {link}")


def find_vcpus(pid):
    """Return the link targets of a VMM's vCPU descriptors; the VMM must have stopped them."""
    return sorted({link for link in consumer.read_links(pid).values()
                   if link.startswith("anon_inode:kvm-vcpu:")})


def enforce_cpuid(pid, enforce):
    """Limit the guest of a VMM to the PV features in its CPUID, or remove the limit."""
    for link in find_vcpus(pid):
        call_ioctl(pid, link, KVM_ENABLE_CAP, struct.pack(
            "=2I4Q64x", KVM_CAP_ENFORCE_PV_FEATURE_CPUID, 0, enforce, 0, 0, 0))


def replace_in_memory(pid, size, was, becomes):
    """Replace all occurrences of a byte string in a guest's memory; return their number.

    size: the size of the guest's memory, which identifies its mapping.
    """
    span = next((int(start, 16), int(end, 16)) for start, end in (
        line.split()[0].split("-")
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
        if int(end, 16) - int(start, 16) == size)
    found, step = 0, 1 << 24
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for start in range(*span, step):
            # Read beyond the end of a piece: an occurrence may cross it.
            memory.seek(start)
            piece = memory.read(min(step + len(was) - 1, span[1] - start))
            at = piece.find(was)
            while at >= 0:
                memory.seek(start + at)
                memory.write(becomes)
                found += 1
                at = piece.find(was, at + 1)
    return found
