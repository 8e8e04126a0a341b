//! Registers of the interrupted thread, which differ between processors.

use framehop::UnwindRegsNative;

/// Registers of a thread at the moment it was interrupted.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) instruction: usize,
    pub(super) stack: usize,
    pub(super) frame: usize,
    /// Register that contains the result of a system call.
    pub(super) result: isize,
    #[cfg(target_arch = "aarch64")]
    link: usize,
}

/// Machine code of the system call instruction.
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
        // Return addresses may be signed. Code addresses of programs have at most 48 bits.
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

/// Removes the signature from a return address.
pub(super) fn code_address(address: u64) -> u64 {
    #[cfg(target_arch = "aarch64")]
    return address & CODE_BITS;
    #[cfg(target_arch = "x86_64")]
    address
}

/// Returns the address of the thread's own data. The C library places it at the upper end of the
/// thread's stack, above all frames. The first thread is an exception.
pub(super) fn thread_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the ABI for thread-locals on x86-64 requires that the first word at the `fs` base
    // contains that base address. Every C library on Linux sets it up before other code runs. The
    // instruction only reads that word.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction reads a register that programs may read, and accesses no memory.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}
