//! An op, as record.cpp tells of it.

use std::ffi::c_void;

use super::names::OpWord;

/// An op that begins, as libtorch tells of it: `MlprofTchOp` of record.h.
///
/// *Invariant*: only record.cpp makes one, and what it points to is good for as long.
#[repr(C)]
pub(super) struct OpCall {
    key: *const c_void,
    pub(super) op: OpWord,
    /// Null if inputs are not wanted.
    words: *const i64,
    word_count: usize,
    /// Below 0: none.
    pub(super) sequence: i64,
    /// The thread that runs it, as libtorch counts threads.
    pub(super) thread: u64,
    /// Of a node of autograd: the thread of its forward op; else 0.
    pub(super) forward_thread: u64,
    pub(super) is_backward: bool,
}

impl OpCall {
    /// The same when it ends; another op may have it after that.
    #[inline(always)]
    pub(super) fn key(&self) -> usize {
        self.key as usize
    }

    /// Its inputs, in the form of
    /// [`InputsBuilder::set_words`](mlprof_core::hook::InputsBuilder::set_words); `None` if they
    /// are not wanted.
    #[inline(always)]
    pub(super) fn words(&self) -> Option<&[i64]> {
        if self.words.is_null() {
            return None;
        }
        // SAFETY: by the invariant.
        Some(unsafe { std::slice::from_raw_parts(self.words, self.word_count) })
    }
}
