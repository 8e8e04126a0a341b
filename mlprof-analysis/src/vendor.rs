//! Detection of device vendors from product names and API calls.

use crate::trace::Trace;

/// Vendor of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Vendor {
    Nvidia,
    Amd,
    Intel,
}

impl Vendor {
    const ALL: [Self; 3] = [Self::Nvidia, Self::Amd, Self::Intel];

    /// Returns the vendor of a product, such as `AMD Instinct MI300X`.
    pub(crate) fn of_product(product: &str) -> Option<Self> {
        let product = product.to_ascii_lowercase();
        let words = |vendor| match vendor {
            Self::Nvidia => &["nvidia", "geforce", "quadro", "tesla"][..],
            Self::Amd => &["amd", "radeon", "instinct", "gfx9", "gfx10", "gfx11", "gfx12"],
            Self::Intel => &["intel", "data center gpu max"],
        };
        let is_of = |vendor: &Self| words(*vendor).iter().any(|word| product.contains(word));
        Self::ALL.into_iter().find(is_of)
    }

    /// Returns the vendor of the library that a call such as `hipLaunchKernel` belongs to.
    pub(crate) fn of_call(call: &str) -> Option<Self> {
        let begins = |vendor| match vendor {
            Self::Nvidia => &["cu"][..],
            Self::Amd => &["hip", "hsa_"],
            Self::Intel => &["ze", "ur", "sycl"],
        };
        let is_of = |vendor: &Self| begins(*vendor).iter().any(|begin| call.starts_with(begin));
        Self::ALL.into_iter().find(is_of)
    }

    /// Returns the vendor whose library received most calls in a trace. If several are equal, the
    /// first one is returned.
    pub(crate) fn of_calls(trace: &Trace) -> Option<Self> {
        let vendors = trace.names.map(Self::of_call);
        let calls = trace.slices.iter().filter(|slice| slice.category.is_runtime());
        let mut counts = Self::ALL.map(|vendor| (0_u64, vendor));
        for vendor in calls.filter_map(|call| vendors[call.name]) {
            counts[vendor as usize].0 += 1;
        }
        let most = counts.iter().map(|(count, _)| *count).max().filter(|most| *most > 0)?;
        counts.into_iter().find(|(count, _)| *count == most).map(|(_, vendor)| vendor)
    }

    /// Returns the name of the vendor's library.
    pub(crate) fn library(self) -> &'static str {
        match self {
            Self::Nvidia => "CUDA",
            Self::Amd => "HIP",
            Self::Intel => "oneAPI",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_are_known_by_products() {
        for (product, vendor) in [
            ("NVIDIA H100 80GB HBM3", Some(Vendor::Nvidia)),
            ("Tesla V100-SXM2-16GB", Some(Vendor::Nvidia)),
            ("AMD Instinct MI300X", Some(Vendor::Amd)),
            ("gfx942", Some(Vendor::Amd)),
            ("Intel(R) Data Center GPU Max 1550", Some(Vendor::Intel)),
            ("an unknown device", None),
        ] {
            assert_eq!(Vendor::of_product(product), vendor, "{product}");
        }
    }

    #[test]
    fn vendors_are_known_by_calls() {
        for (call, vendor) in [
            ("cudaLaunchKernel", Some(Vendor::Nvidia)),
            ("cuLaunchKernelEx", Some(Vendor::Nvidia)),
            ("hipGraphLaunch", Some(Vendor::Amd)),
            ("zeCommandListAppendLaunchKernel", Some(Vendor::Intel)),
            ("aten::mm", None),
        ] {
            assert_eq!(Vendor::of_call(call), vendor, "{call}");
        }
    }
}
