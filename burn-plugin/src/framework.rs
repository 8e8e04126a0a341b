//! What burn says of itself, for reports.

use burn::tensor::Device;
use mlprof_core::hook::{Framework, declare_device, declare_framework};

const NAME: &str = "burn";

/// Those that this crate is made for.
const VERSION: &str = "0.22";

/// Has reports say that the program trains with burn, on these devices. It may be said many times.
pub(crate) fn declare(devices: &[Device]) {
    declare_framework(read);
    devices.iter().for_each(|device| declare_device(NAME, &device_name(device)));
}

/// The device as burn shows it, without what wraps it for gradients: `Flex(Default)`.
pub(crate) fn device_name(device: &Device) -> String {
    let shown = format!("{:?}", device.clone().inner());
    let inner = shown.strip_prefix("Device<").and_then(|rest| rest.strip_suffix('>'));
    inner.unwrap_or(&shown).to_owned()
}

/// burn tells neither what it was built with nor how many threads it uses.
fn read() -> Framework {
    Framework { name: NAME.to_owned(), version: Some(VERSION.to_owned()), ..Framework::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_asked_for() {
        let manifest = include_str!("../../Cargo.toml");
        assert!(manifest.contains(&format!("\nburn = {{ version = \"{VERSION}\"")), "{VERSION}");
    }

    #[test]
    fn devices_are_named_without_what_wraps_them() {
        let name = device_name(&Device::flex());
        assert!(name.starts_with("Flex"), "{name}");
        assert_eq!(device_name(&Device::flex().autodiff()), name);
    }
}
