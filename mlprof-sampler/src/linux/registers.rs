//! What differs between processors: the interrupted thread's registers.

use framehop::UnwindRegsNative;

/// The registers of a thread at the moment it was interrupted.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) instruction: usize,
    pub(super) stack: usize,
    pub(super) frame: usize,
    /// What a system call returns in.
    pub(super) result: isize,
    #[cfg(target_arch = "aarch64")]
    link: usize,
}

/// The instruction that calls the system, and its length.
#[cfg(target_arch = "x86_64")]
pub(super) const SYSTEM_CALL: &[u8] = &[0x0f, 0x05];
#[cfg(target_arch = "aarch64")]
pub(super) const SYSTEM_CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];

#[cfg(target_arch = "x86_64")]
impl Registers {
    pub(super) fn of(context: &libc::ucontext_t) -> Self {
        let registers = &context.uc_mcontext.gregs;
        Self {
            instruction: registers[libc::REG_RIP as usize] as usize,
            stack: registers[libc::REG_RSP as usize] as usize,
            frame: registers[libc::REG_RBP as usize] as usize,
            result: registers[libc::REG_RAX as usize] as isize,
        }
    }

    pub(super) fn for_unwinding(&self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.instruction as u64, self.stack as u64, self.frame as u64)
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    pub(super) fn of(context: &libc::ucontext_t) -> Self {
        let machine = &context.uc_mcontext;
        Self {
            instruction: machine.pc as usize,
            stack: machine.sp as usize,
            frame: machine.regs[29] as usize,
            result: machine.regs[0] as isize,
            link: machine.regs[30] as usize,
        }
    }

    pub(super) fn for_unwinding(&self) -> UnwindRegsNative {
        // Return addresses may be signed; addresses of programs have 48 bits at most.
        let mask = framehop::aarch64::PtrAuthMask(CODE_BITS);
        UnwindRegsNative::new_with_ptr_auth_mask(
            mask,
            self.link as u64,
            self.stack as u64,
            self.frame as u64,
        )
    }
}

#[cfg(target_arch = "aarch64")]
const CODE_BITS: u64 = (1 << 48) - 1;

/// A return address as code: without a signature.
pub(super) fn code_address(address: u64) -> u64 {
    #[cfg(target_arch = "aarch64")]
    return address & CODE_BITS;
    #[cfg(target_arch = "x86_64")]
    address
}

/// Where the thread's own data are. The C library puts them at the upper end of the thread's stack,
/// above all frames, except for the first thread's.
pub(super) fn thread_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the first word that the segment register points to is its own address; every C
    // library on this system puts it there, as its convention for thread-locals demands.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register that programs may read.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}
