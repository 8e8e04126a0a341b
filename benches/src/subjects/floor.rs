//! The practical minimum cost of a profiler that stores two timestamps per scope.

use std::cell::RefCell;
use std::time::Duration;

use crate::harness::{Subject, time, work};

/// Two raw readings of the time-stamp counter, and one push to a thread-local buffer with free
/// capacity.
pub struct Floor;

struct Record {
    _id: u32,
    _start: u64,
    _end: u64,
}

thread_local! {
    static BUFFER: RefCell<Vec<Record>> = const { RefCell::new(Vec::new()) };
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU supports the instruction. It only reads the counter and does not
    // access memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: the instruction reads the virtual counter, which operating systems make accessible to
    // programs. It does not access memory or the stack.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
    }
    ticks
}

impl Subject for Floor {
    fn name(&self) -> &'static str {
        crate::results::FLOOR
    }

    fn slice(&self, scopes: usize) -> Duration {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            buffer.reserve(scopes);
        });
        time(scopes, |call| {
            let start = ticks();
            work(call);
            let end = ticks();
            BUFFER.with_borrow_mut(|buffer| {
                buffer.push(Record { _id: 1, _start: start, _end: end });
            });
        })
    }
}
