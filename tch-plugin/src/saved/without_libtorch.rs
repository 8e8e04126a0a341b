//! Replacement for the optimizer state if libtorch's headers were not found.

use mlprof_train::{Result, SavedState};
use tch::{COptimizer, Tensor};

const REASON: &str = "mlprof-tch was built without libtorch's headers, which it needs to read the \
                      state of an optimizer";

pub(crate) fn state(_optimizer: &COptimizer, _named: &[(String, Tensor)]) -> Result<SavedState> {
    Err(REASON.into())
}

pub(crate) fn load(
    _optimizer: &mut COptimizer,
    _named: &[(String, Tensor)],
    _state: &SavedState,
) -> Result<()> {
    Err(REASON.into())
}
