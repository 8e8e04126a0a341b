//! Differences between the supported burn versions: 0.22, and 0.23 for `mlprof-burn-next`, whose
//! build script sets `burn_0_23`.
//!
//! Both modules define the same items, so that every loop exists only once.

#[cfg(all(feature = "train", not(burn_0_23)))]
mod burn_0_22;
#[cfg(all(feature = "train", burn_0_23))]
mod burn_0_23;

#[cfg(all(feature = "train", not(burn_0_23)))]
pub(crate) use burn_0_22::*;
#[cfg(all(feature = "train", burn_0_23))]
pub(crate) use burn_0_23::*;

/// Data loader methods that exist only in one burn version.
#[cfg(all(feature = "dataset", not(burn_0_23)))]
macro_rules! loader_methods {
    () => {};
}

/// Data loader methods that exist only in one burn version.
#[cfg(all(feature = "dataset", burn_0_23))]
macro_rules! loader_methods {
    () => {
        fn expected_num_items(&self) -> Option<usize> {
            self.loader.expected_num_items()
        }
    };
}

#[cfg(feature = "dataset")]
pub(crate) use loader_methods;

/// Returns `true` if a device of this family uses the NdArray backend.
#[cfg(not(burn_0_23))]
pub(crate) fn is_ndarray(family: u16) -> bool {
    family == u16::from(burn::backend::DispatchDeviceId::NdArray)
}

/// Returns `false`, because burn 0.23 does not have the NdArray backend.
#[cfg(burn_0_23)]
pub(crate) fn is_ndarray(_family: u16) -> bool {
    false
}
