//! Which name of the tool stands for which action.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::tool::{Name, Tool};
use crate::Action;

const CHUNK: usize = 4096;
const CHUNKS: usize = 1024;

type Chunk = Box<[AtomicPtr<std::ffi::c_void>]>;

/// By the numbers of actions, of which there are as many as names.
static NAMES: [OnceLock<Chunk>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// The name of an action. *Cost*: two loads for one that is known.
#[inline]
pub(super) fn name_of(action: Action, tool: &Tool) -> Name {
    let number = action.number() as usize;
    let Some(chunk) = NAMES.get(number / CHUNK) else {
        return tool.name(action.name()); // one of more than four million names
    };
    let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicPtr::new(ptr::null_mut())).collect());
    let place = &chunk[number % CHUNK];
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        return Name(known);
    }
    // Two threads that come here at once get two names for one text, which tools allow.
    let name = tool.name(action.name());
    place.store(name.0, Ordering::Release);
    name
}
