//! Packages that are built together, for their own tests (`cargo xtask test candle`) and for programs that end-to-end
//! tests run: of what they stand on there is then one build, not one for each of them.

/// Of any command that builds: this package asks for each feature of crates outside of this workspace that some
/// command asks for, so that what several of them stand on is built once.
pub const UNIFICATION: &str = "feature-unification";

/// Packages, their features, and the profile that they are built in.
pub struct Together {
    /// What is built, and tested.
    pub packages: &'static [&'static str],
    /// With the names of the packages before them.
    pub features: &'static [&'static str],
    /// `quick` where hundreds of crates would take half an hour to optimise, `tested` where what computes must be.
    pub profile: &'static str,
}

/// Candle's plugin and all programs that use it.
pub const CANDLE: Together = Together {
    packages: &[
        "candle-plugin",
        "candle-digits",
        "candle-workers",
        "candle-text",
        "command-line",
        "digits",
        "parallel-training",
    ],
    features: &[
        "candle-plugin/capture",
        "candle-plugin/cuda",
        "candle-plugin/metrics",
        "candle-plugin/otlp",
        "candle-plugin/tracing",
        "candle-text/spans",
    ],
    profile: "tested",
};

/// For all of burn's devices.
pub const BURN: Together = Together {
    packages: &["burn-plugin", "burn-digits"],
    features: &["burn-plugin/otlp", "burn-plugin/rl", "burn-plugin/tracing", "burn-digits/wgpu"],
    profile: "quick",
};

/// tch, which looks for libtorch.
pub const TCH: Together = Together {
    packages: &["tch-plugin", "tch-digits"],
    features: &["tch-plugin/capture", "tch-plugin/kineto-oracle", "tch-plugin/otlp"],
    profile: "tested",
};

/// The command, and what it asks traces. What reads whole frameworks, and traces, is optimised a little in this profile.
pub const COMMAND: Together = Together {
    packages: &["profiler-cli", "profiler-analysis"],
    features: &["profiler-cli/parquet", "profiler-analysis/parquet"],
    profile: "quick",
};

impl Together {
    /// What cargo is told behind `build` or `test`.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        let packages = self.packages.iter().chain([&UNIFICATION]);
        let packages = packages.flat_map(|package| ["--package".to_owned(), (*package).to_owned()]);
        ["--profile".to_owned(), self.profile.to_owned()]
            .into_iter()
            .chain(packages)
            .chain(["--features".to_owned(), self.features.join(",")])
    }
}
