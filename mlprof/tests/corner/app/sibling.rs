//! A module outside the source folder, which declares another module by a path through it.

#[path = "src/inner/../../below.rs"]
mod below;

/// Returns one, through the function below.
pub(crate) fn beside() -> u32 {
    below::below()
}
