//! Beside the folder of the sources, and called through it.

#[path = "src/inner/../../below.rs"]
mod below;

/// One.
pub(crate) fn beside() -> u32 {
    below::below()
}
