# SPDX-License-Identifier: GPL-2.0-only
"""Have a running VMM do to its vCPUs what it does not do by itself.

KVM lets nobody but the VMM's own process do it: so a thread of it is stopped, as a
debugger does, makes the system call, and goes on with what it was at.
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
# Below the stack's end, where nothing is.
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
    """The system call; it has to succeed."""
    if LIBC.ptrace(request, pid, None, data):
        raise OSError(ctypes.get_errno(), f"ptrace request {request}")


@contextlib.contextmanager
def stopped(pid):
    """The registers of the first thread of a process, stopped behind the instruction
    that makes a system call."""
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
            # With these the kernel begins the interrupted call again.
            ptrace(PTRACE_SETREGS, pid, ctypes.addressof(registers))
            ptrace(PTRACE_DETACH, pid)
        time.sleep(0.01)


def ioctl(pid, link, request, data):
    """Have a process make one on its descriptor that is this link in /proc."""
    fd = next(fd for fd, other in consumer.links(pid).items() if other == link)
    with stopped(pid) as registers:
        at = (registers.rsp - SCRATCH) & ~15
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(at)
            memory.write(data)
        call = Registers.from_buffer_copy(registers)
        call.rip -= len(SYSCALL)
        call.rax, call.rdi, call.rsi, call.rdx = SYS_IOCTL, fd, request, at
        # It is none that could begin again.
        call.orig_rax = 2**64 - 1
        ptrace(PTRACE_SETREGS, pid, ctypes.addressof(call))
        ptrace(PTRACE_SINGLESTEP, pid)
        os.waitpid(pid, 0)
        ptrace(PTRACE_GETREGS, pid, ctypes.addressof(call))
    if call.rax:
        raise OSError(2**64 - call.rax, f"ioctl {request:#x} of {link}")


def vcpus(pid):
    """Links to the vCPUs of a VMM; to be used while it has stopped them."""
    return sorted({link for link in consumer.links(pid).values()
                   if link.startswith("anon_inode:kvm-vcpu:")})


def enforce_cpuid(pid, enforce):
    """Let its guest have what its CPUID says, no more; or all that KVM has."""
    for link in vcpus(pid):
        ioctl(pid, link, KVM_ENABLE_CAP, struct.pack(
            "=2I4Q64x", KVM_CAP_ENFORCE_PV_FEATURE_CPUID, 0, enforce, 0, 0, 0))


def replace_in_memory(pid, size, was, becomes):
    """Write something else wherever a guest has it in its memory, which is of that size;
    returns how often that is."""
    span = next((int(start, 16), int(end, 16)) for start, end in (
        line.split()[0].split("-")
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
        if int(end, 16) - int(start, 16) == size)
    found, step = 0, 1 << 24
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for start in range(*span, step):
            # What begins in one piece may end in the next.
            memory.seek(start)
            piece = memory.read(min(step + len(was) - 1, span[1] - start))
            at = piece.find(was)
            while at >= 0:
                memory.seek(start + at)
                memory.write(becomes)
                found += 1
                at = piece.find(was, at + 1)
    return found
