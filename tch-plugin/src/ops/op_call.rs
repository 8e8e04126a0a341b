//! The beginning of an op as reported by record.cpp.

use std::ffi::c_void;

use super::names::OpWord;

/// An op that begins: `MlprofTchOp` of record.h.
///
/// *Invariant*: only record.cpp creates this type. Its pointers are valid as long as the value is
/// borrowed.
#[repr(C)]
pub(super) struct OpCall {
    key: *const c_void,
    pub(super) op: OpWord,
    /// Encoded inputs, or null if no profiler requests inputs.
    words: *const i64,
    word_count: usize,
    /// Autograd sequence number, or a negative value if there is none.
    pub(super) sequence: i64,
    /// Id of the executing thread, in libtorch's numbering.
    pub(super) thread: u64,
    /// For an autograd node, the thread id of its forward op; otherwise 0.
    pub(super) forward_thread: u64,
    pub(super) is_backward: bool,
}

impl OpCall {
    /// Returns a key that identifies the op until it ends. Later ops may reuse it.
    #[inline(always)]
    pub(super) fn key(&self) -> usize {
        self.key as usize
    }

    /// Returns the inputs in the encoding of
    /// [`InputsBuilder::set_words`](mlprof_core::hook::InputsBuilder::set_words), or `None` if no
    /// profiler requests them.
    #[inline(always)]
    pub(super) fn words(&self) -> Option<&[i64]> {
        if self.words.is_null() {
            return None;
        }
        // SAFETY: the pointer is not null. By the type's invariant, it points to `word_count`
        // initialised words that are valid while `self` is borrowed.
        Some(unsafe { std::slice::from_raw_parts(self.words, self.word_count) })
    }
}
