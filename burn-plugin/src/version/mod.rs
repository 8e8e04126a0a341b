//! The differences between the versions of burn that this crate is built with: 0.22, or 0.23 as
//! `mlprof-burn-next`, whose build script sets `burn_0_23`.
//!
//! Both modules have the same items, so that every loop is written once.

#[cfg(all(feature = "train", not(burn_0_23)))]
mod burn_0_22;
#[cfg(all(feature = "train", burn_0_23))]
mod burn_0_23;

#[cfg(all(feature = "train", not(burn_0_23)))]
pub(crate) use burn_0_22::*;
#[cfg(all(feature = "train", burn_0_23))]
pub(crate) use burn_0_23::*;

/// The methods that data loaders have in one version only.
#[cfg(all(feature = "dataset", not(burn_0_23)))]
macro_rules! loader_methods {
    () => {};
}

/// The methods that data loaders have in one version only.
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

/// Returns whether a device of this family is one of the backend NdArray.
#[cfg(not(burn_0_23))]
pub(crate) fn is_ndarray(family: u16) -> bool {
    family == u16::from(burn::backend::DispatchDeviceId::NdArray)
}

/// Returns whether a device of this family is one of the backend NdArray, which burn 0.23 does not
/// have.
#[cfg(burn_0_23)]
pub(crate) fn is_ndarray(_family: u16) -> bool {
    false
}
