//! Packages that are built together, for their own tests (`cargo xtask test candle`) and for the
//! programs of end-to-end tests. Their dependencies are then built only once.

/// Package that every build command includes. It requests all third-party features that any command
/// requests, so that shared dependencies are built once.
pub const UNIFICATION: &str = "feature-unification";

/// Packages, their features, and the profile of their build.
#[derive(Debug)]
pub struct Together {
    /// Packages that are built and tested.
    pub packages: &'static [&'static str],
    /// Features with package prefixes.
    pub features: &'static [&'static str],
    /// Build profile: `quick` if optimising hundreds of crates would take half an hour, and
    /// `tested` if the computation must be optimised.
    pub profile: &'static str,
}

/// Candle's plugin and all programs that use it.
pub const CANDLE: Together = Together {
    packages: &[
        "mlprof-candle",
        "candle-digits",
        "candle-workers",
        "candle-text",
        "command-line",
        "digits",
        "parallel-training",
    ],
    features: &[
        "mlprof-candle/capture",
        "mlprof-candle/cuda",
        "mlprof-candle/metrics",
        "mlprof-candle/otlp",
        "mlprof-candle/tracing",
        "candle-text/spans",
    ],
    profile: "tested",
};

/// Burn's plugin and programs for all of burn's devices.
pub const BURN: Together = Together {
    packages: &["mlprof-burn", "burn-digits"],
    features: &["mlprof-burn/otlp", "mlprof-burn/rl", "mlprof-burn/tracing", "burn-digits/wgpu"],
    profile: "quick",
};

/// Burn's plugin and programs with burn 0.23, only for the CPU. They are a separate workspace at
/// [`BURN_NEXT_MANIFEST`].
pub const BURN_NEXT: Together = Together {
    packages: &["mlprof-burn-next", "burn-digits-next"],
    features: &["mlprof-burn-next/otlp", "mlprof-burn-next/rl", "mlprof-burn-next/tracing"],
    profile: "quick",
};

/// The manifest of [`BURN_NEXT`], relative to the main workspace.
pub const BURN_NEXT_MANIFEST: &str = "burn-plugin/next/Cargo.toml";

/// The build folder of [`BURN_NEXT`], inside the common build folder.
pub const BURN_NEXT_FOLDER: &str = "next";

/// Environment variable that makes the tests of `burn-digits` run the programs of [`BURN_NEXT`].
pub const BURN_NEXT_VARIABLE: &str = "MLPROF_TEST_BURN_NEXT";

/// Tch's plugin and programs, which need libtorch.
pub const TCH: Together = Together {
    packages: &["mlprof-tch", "tch-digits"],
    features: &["mlprof-tch/capture", "mlprof-tch/kineto-oracle", "mlprof-tch/otlp"],
    profile: "tested",
};

/// The command and its trace analysis. This profile optimises slightly the code that parses whole
/// frameworks and traces.
pub const COMMAND: Together = Together {
    packages: &["mlprof", "mlprof-analysis", "mlprof-instrument"],
    features: &["mlprof/parquet", "mlprof-analysis/parquet"],
    profile: "quick",
};

impl Together {
    /// Returns cargo's arguments after `build` or `test`.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        // The separate workspace does not contain this package and shares no build.
        let has_unification = self.packages != BURN_NEXT.packages;
        let packages = self.packages.iter().chain(has_unification.then_some(&UNIFICATION));
        let packages = packages.flat_map(|package| ["--package".to_owned(), (*package).to_owned()]);
        ["--profile".to_owned(), self.profile.to_owned()]
            .into_iter()
            .chain(packages)
            .chain(["--features".to_owned(), self.features.join(",")])
    }
}
