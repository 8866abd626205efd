/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The s390 statistics of KVM, one line per statistic.
 * <linux/kvm_stats_defs.h>, which includes this file, explains the lines.
 */

DEFINE_VM_STAT(inject_io, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Requests to inject an I/O interrupt")
DEFINE_VM_STAT(inject_float_mchk, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Requests to inject a floating machine check")
DEFINE_VM_STAT(inject_pfault_done, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Requests to inject a pfault-done interrupt")
DEFINE_VM_STAT(inject_service_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Requests to inject a service-signal interrupt")
DEFINE_VM_STAT(inject_virtio, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Requests to inject a virtio interrupt")
DEFINE_VM_STAT(remote_tlb_flush, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
	       "Never counted by this kernel")

DEFINE_VCPU_STAT(halt_wait_ns, CUMULATIVE, SECONDS, -9, KVM_NO_DEBUGFS,
		 "Time spent scheduled away in halts")
DEFINE_VCPU_STAT(exit_userspace, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("userspace_handled"),
		 "Returns to user space from KVM_RUN, without those right at its start")
DEFINE_VCPU_STAT(exit_null, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits from guest mode without an interception code")
DEFINE_VCPU_STAT(exit_external_request, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions because the guest became ready for an external interrupt")
DEFINE_VCPU_STAT(exit_io_request, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions because the guest became ready for an I/O interrupt")
DEFINE_VCPU_STAT(exit_external_interrupt, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions for an external interrupt")
DEFINE_VCPU_STAT(exit_stop_request, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions because the vCPU was asked to stop")
DEFINE_VCPU_STAT(exit_validity, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions because the guest state was not valid")
DEFINE_VCPU_STAT(exit_instruction, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions for an instruction")
DEFINE_VCPU_STAT(exit_pei, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions for the partial execution of an instruction")
DEFINE_VCPU_STAT(halt_no_poll_steal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Decisions against polling for steal time, up to two per halt")
DEFINE_VCPU_STAT(instruction_lctl, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "LOAD CONTROL instructions handled")
DEFINE_VCPU_STAT(instruction_lctlg, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "LOAD CONTROL (64 bit) instructions handled")
DEFINE_VCPU_STAT(instruction_stctl, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE CONTROL instructions handled")
DEFINE_VCPU_STAT(instruction_stctg, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE CONTROL (64 bit) instructions handled")
DEFINE_VCPU_STAT(exit_program_interruption, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions for a program interruption")
DEFINE_VCPU_STAT(exit_instr_and_program, CUMULATIVE, NONE, 0,
		 KVM_DEBUGFS_AS("exit_instr_and_program_int"),
		 "Never counted by this kernel")
DEFINE_VCPU_STAT(exit_operation_exception, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions for an operation exception")
DEFINE_VCPU_STAT(deliver_ckc, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Clock comparator interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_cputm, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "CPU timer interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_external_call, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "External-call interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_emergency_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Emergency-signal interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_service_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Service-signal interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_virtio, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Virtio interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_stop_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Never counted by this kernel")
DEFINE_VCPU_STAT(deliver_prefix_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Set-prefix signals that KVM delivered")
DEFINE_VCPU_STAT(deliver_restart_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Restart signals that KVM delivered")
DEFINE_VCPU_STAT(deliver_program, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Program interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_io, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "I/O interrupts that KVM delivered")
DEFINE_VCPU_STAT(deliver_machine_check, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Machine checks that KVM delivered")
DEFINE_VCPU_STAT(exit_wait_state, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interceptions for a wait state, enabled or disabled")
DEFINE_VCPU_STAT(inject_ckc, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a clock comparator interrupt")
DEFINE_VCPU_STAT(inject_cputm, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a CPU timer interrupt")
DEFINE_VCPU_STAT(inject_external_call, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject an external-call interrupt")
DEFINE_VCPU_STAT(inject_emergency_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject an emergency-signal interrupt")
DEFINE_VCPU_STAT(inject_mchk, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a machine check")
DEFINE_VCPU_STAT(inject_pfault_init, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a pfault-init interrupt")
DEFINE_VCPU_STAT(inject_program, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a program interrupt")
DEFINE_VCPU_STAT(inject_restart, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a restart interrupt")
DEFINE_VCPU_STAT(inject_set_prefix, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a set-prefix signal")
DEFINE_VCPU_STAT(inject_stop_signal, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Requests to inject a stop signal")
DEFINE_VCPU_STAT(instruction_epsw, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "EXTRACT PSW instructions handled")
DEFINE_VCPU_STAT(instruction_gs, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Guarded-storage instructions handled")
DEFINE_VCPU_STAT(instruction_io_other, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "I/O instructions other than TPI and TSCH, left to user space")
DEFINE_VCPU_STAT(instruction_lpsw, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "LOAD PSW instructions handled")
DEFINE_VCPU_STAT(instruction_lpswe, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "LOAD PSW EXTENDED instructions handled")
DEFINE_VCPU_STAT(instruction_pfmf, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "PERFORM FRAME MANAGEMENT FUNCTION instructions handled")
DEFINE_VCPU_STAT(instruction_ptff, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "PERFORM TIMING FACILITY FUNCTION instructions handled")
DEFINE_VCPU_STAT(instruction_sck, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SET CLOCK instructions handled")
DEFINE_VCPU_STAT(instruction_sckpf, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SET CLOCK PROGRAMMABLE FIELD instructions handled")
DEFINE_VCPU_STAT(instruction_stidp, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE CPU ID instructions handled")
DEFINE_VCPU_STAT(instruction_spx, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SET PREFIX instructions handled")
DEFINE_VCPU_STAT(instruction_stpx, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE PREFIX instructions handled")
DEFINE_VCPU_STAT(instruction_stap, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE CPU ADDRESS instructions handled")
DEFINE_VCPU_STAT(instruction_iske, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "INSERT STORAGE KEY EXTENDED instructions handled")
DEFINE_VCPU_STAT(instruction_ri, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Runtime-instrumentation instructions handled")
DEFINE_VCPU_STAT(instruction_rrbe, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "RESET REFERENCE BIT EXTENDED instructions handled")
DEFINE_VCPU_STAT(instruction_sske, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SET STORAGE KEY EXTENDED instructions handled")
DEFINE_VCPU_STAT(instruction_ipte_interlock, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "IPTE and IDTE instructions that met the IPTE interlock")
DEFINE_VCPU_STAT(instruction_stsi, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE SYSTEM INFORMATION instructions handled")
DEFINE_VCPU_STAT(instruction_stfl, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE FACILITY LIST instructions handled")
DEFINE_VCPU_STAT(instruction_tb, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "TEST BLOCK instructions handled")
DEFINE_VCPU_STAT(instruction_tpi, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "TEST PENDING INTERRUPTION instructions handled")
DEFINE_VCPU_STAT(instruction_tprot, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "TEST PROTECTION instructions handled")
DEFINE_VCPU_STAT(instruction_tsch, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "TEST SUBCHANNEL instructions handled")
DEFINE_VCPU_STAT(instruction_sie, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "START INTERPRETIVE EXECUTION instructions handled")
DEFINE_VCPU_STAT(instruction_essa, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "EXTRACT AND SET STORAGE ATTRIBUTES instructions handled")
DEFINE_VCPU_STAT(instruction_sthyi, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "STORE HYPERVISOR INFORMATION instructions handled")
DEFINE_VCPU_STAT(instruction_sigp_sense, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP SENSE orders handled")
DEFINE_VCPU_STAT(instruction_sigp_sense_running, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP SENSE RUNNING STATUS orders handled")
DEFINE_VCPU_STAT(instruction_sigp_external_call, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP EXTERNAL CALL orders handled")
DEFINE_VCPU_STAT(instruction_sigp_emergency, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP EMERGENCY SIGNAL orders handled")
DEFINE_VCPU_STAT(instruction_sigp_cond_emergency, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP CONDITIONAL EMERGENCY SIGNAL orders handled")
DEFINE_VCPU_STAT(instruction_sigp_start, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP START orders handled")
DEFINE_VCPU_STAT(instruction_sigp_stop, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP STOP orders handled")
DEFINE_VCPU_STAT(instruction_sigp_stop_store_status, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP STOP AND STORE STATUS orders handled")
DEFINE_VCPU_STAT(instruction_sigp_store_status, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP STORE STATUS AT ADDRESS orders handled")
DEFINE_VCPU_STAT(instruction_sigp_store_adtl_status, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP STORE ADDITIONAL STATUS AT ADDRESS orders left to user space")
DEFINE_VCPU_STAT(instruction_sigp_arch, CUMULATIVE, NONE, 0,
		 KVM_DEBUGFS_AS("instruction_sigp_set_arch"),
		 "SIGP SET ARCHITECTURE orders handled")
DEFINE_VCPU_STAT(instruction_sigp_prefix, CUMULATIVE, NONE, 0,
		 KVM_DEBUGFS_AS("instruction_sigp_set_prefix"),
		 "SIGP SET PREFIX orders handled")
DEFINE_VCPU_STAT(instruction_sigp_restart, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP RESTART orders handled")
DEFINE_VCPU_STAT(instruction_sigp_init_cpu_reset, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP INITIAL CPU RESET orders handled")
DEFINE_VCPU_STAT(instruction_sigp_cpu_reset, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP CPU RESET orders handled")
DEFINE_VCPU_STAT(instruction_sigp_unknown, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "SIGP orders that KVM does not know")
DEFINE_VCPU_STAT(diagnose_10, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("instruction_diag_10"),
		 "DIAGNOSE 0x10 (release pages) calls")
DEFINE_VCPU_STAT(diagnose_44, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("instruction_diag_44"),
		 "DIAGNOSE 0x44 (yield) calls")
DEFINE_VCPU_STAT(diagnose_9c, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("instruction_diag_9c"),
		 "DIAGNOSE 0x9c (directed yield) calls")
DEFINE_VCPU_STAT(diagnose_9c_ignored, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("diag_9c_ignored"),
		 "DIAGNOSE 0x9c (directed yield) calls that did not yield")
DEFINE_VCPU_STAT(diagnose_258, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("instruction_diag_258"),
		 "DIAGNOSE 0x258 (page-reference services) calls")
DEFINE_VCPU_STAT(diagnose_308, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("instruction_diag_308"),
		 "DIAGNOSE 0x308 (re-IPL) calls")
DEFINE_VCPU_STAT(diagnose_500, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("instruction_diag_500"),
		 "DIAGNOSE 0x500 (virtio hypercall) calls")
DEFINE_VCPU_STAT(diagnose_other, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("instruction_diag_other"),
		 "DIAGNOSE calls with another function code")
