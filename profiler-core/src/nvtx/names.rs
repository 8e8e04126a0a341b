//! Names and categories of actions as registered with the tool.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::tool::{Name, Range, Tool};
use crate::{Action, ActionKind};
use mlprof_events::forking::made_once;

const CHUNK: usize = 4096;
const CHUNKS: usize = 1024;

/// *Invariant*: the writer stores `category` first and `name` last, with `Release`. A reader that
/// loads a non-null name with `Acquire` therefore also sees the category.
struct KnownName {
    name: AtomicPtr<c_void>,
    category: AtomicU32,
}

/// Registered names by action number. Their number is bounded by the number of distinct action
/// names.
static KNOWN: [OnceLock<Box<[KnownName]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// Returns the category of ranges for actions of this kind.
fn category(kind: ActionKind) -> u32 {
    match kind {
        ActionKind::Action => 1,
        ActionKind::Module => 2,
        ActionKind::Op | ActionKind::Launch | ActionKind::Kernel => 3,
        ActionKind::Function | ActionKind::Span => 4,
        ActionKind::Step => 5,
    }
}

/// Returns the range of an action. *Cost*: three loads for a known action.
#[inline]
pub(super) fn range_of(action: Action, tool: &Tool) -> Range {
    let number = action.number() as usize;
    let new = || Range { category: category(action.kind()), name: tool.name(action.name()) };
    let Some(chunk) = KNOWN.get(number / CHUNK) else {
        return new(); // the tables hold four million names
    };
    let unknown =
        |_| KnownName { name: AtomicPtr::new(ptr::null_mut()), category: AtomicU32::new(0) };
    let known = &made_once(chunk, || (0..CHUNK).map(unknown).collect())[number % CHUNK];
    let name = known.name.load(Ordering::Acquire);
    if !name.is_null() {
        return Range { category: known.category.load(Ordering::Relaxed), name: Name(name) };
    }
    // Two concurrent threads may register the same text twice, which tools allow.
    let range = new();
    known.category.store(range.category, Ordering::Relaxed);
    known.name.store(range.name.0, Ordering::Release);
    range
}
