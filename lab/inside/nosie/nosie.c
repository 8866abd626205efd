// SPDX-License-Identifier: GPL-2.0-only
/*
 * For tests only: lets KVM create VMs and vCPUs on an emulated s390x CPU.
 *
 * The emulator has neither the SIE instruction, which runs a vCPU, nor PLO,
 * which KVM asks for its functions when it is loaded. Say that SIE is there,
 * and answer a PLO of the kernel as a CPU does that lacks the function asked
 * for. Nothing here makes a vCPU run: the first KVM_RUN of one is fatal.
 */
#include <linux/kdebug.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sizes.h>
#include <asm/sclp.h>

#define PLO_OPCODE	0xee

/*
 * Newer kernels begin 2 GB above the first module, and have its per-CPU variables above
 * themselves. QEMU 7.2 takes what LARL finds more than 2 GB away to be 4 GB lower. With this
 * between them KVM, which is loaded next, is near enough.
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

	/* The PSW points past the instruction already: set condition code 3. */
	regs->psw.mask |= PSW_MASK_CC;
	return NOTIFY_STOP;
}

static struct notifier_block plo_notifier = {
	.notifier_call = answer_plo,
};

static int __init nosie_init(void)
{
	sclp.has_sief2 = 1;
	sclp.has_64bscao = 1;
	/* Less than U64_MAX: newer kernels add 1 to get the limit of a VM. */
	sclp.hamax = (1UL << 47) - 1;
	return register_die_notifier(&plo_notifier);
}

/* There is no way back, KVM relies on it from here on: no module_exit(). */
module_init(nosie_init);
MODULE_DESCRIPTION("KVM without SIE, for tests that create vCPUs only");
MODULE_LICENSE("GPL");
