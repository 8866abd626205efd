// SPDX-License-Identifier: GPL-2.0-only
/*
 * For tests only: make KVM create VMs and vCPUs on an emulated s390x CPU.
 *
 * The emulator supports neither the SIE instruction, which runs a vCPU, nor PLO, whose
 * functions KVM queries when it is loaded. Report SIE as available, and emulate the
 * kernel's PLO as on a CPU without the queried function. vCPUs cannot run: KVM_RUN
 * crashes the kernel.
 */
#include <linux/kdebug.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sizes.h>
#include <asm/sclp.h>

#define PLO_OPCODE	0xee

/*
 * Newer kernels start 2 GB above the first module and place its per-CPU variables above the
 * kernel. QEMU 7.2 computes LARL addresses at a distance of more than 2 GB wrong, 4 GB too
 * low. This array moves KVM, which is loaded next, close enough.
 */
static char distance[SZ_16M] __used;

static int answer_plo(struct notifier_block *self, unsigned long val, void *data)
{
	struct die_args *args = data;
	struct pt_regs *regs = args->regs;
	unsigned long ilc = regs->int_code >> 16;

	if (val != DIE_BPT || user_mode(regs) ||
	    *(u8 *)(regs->psw.addr - ilc) != PLO_OPCODE)
		return NOTIFY_DONE;

	/* The PSW already points past the instruction: set condition code 3. */
	regs->psw.mask |= PSW_MASK_CC;
	return NOTIFY_STOP;
}

static struct notifier_block plo_notifier = {
	.notifier_call = answer_plo,
};

static int __init pretend_sie(void)
{
	sclp.has_sief2 = 1;
	sclp.has_64bscao = 1;
	/* Less than U64_MAX: newer kernels add 1 to get the limit of a VM. */
	sclp.hamax = (1UL << 47) - 1;
	return register_die_notifier(&plo_notifier);
}

/* No module_exit(): KVM relies on this module. */
module_init(pretend_sie);
MODULE_DESCRIPTION("KVM without SIE, for tests that only create vCPUs");
MODULE_LICENSE("GPL");
