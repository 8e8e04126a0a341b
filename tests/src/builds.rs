//! Packages that are built together, for their own tests (`cargo xtask test candle`) and for programs that end-to-end
//! tests run: of what they stand on there is then one build, not one for each of them.

/// Of any command that builds: this package asks for each feature of crates outside of this workspace that some
/// command asks for, so that what several of them stand on is built once.
pub const UNIFICATION: &str = "feature-unification";

/// Packages, their features, and the profile that they are built in.
#[derive(Debug)]
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

/// For all of burn's devices.
pub const BURN: Together = Together {
    packages: &["mlprof-burn", "burn-digits"],
    features: &["mlprof-burn/otlp", "mlprof-burn/rl", "mlprof-burn/tracing", "burn-digits/wgpu"],
    profile: "quick",
};

/// The same with burn 0.23, on the processor alone: a workspace of its own, at [`BURN_NEXT_MANIFEST`].
pub const BURN_NEXT: Together = Together {
    packages: &["mlprof-burn-next", "burn-digits-next"],
    features: &["mlprof-burn-next/otlp", "mlprof-burn-next/rl", "mlprof-burn-next/tracing"],
    profile: "quick",
};

/// The manifest of [`BURN_NEXT`], in the folder of the main workspace.
pub const BURN_NEXT_MANIFEST: &str = "burn-plugin/next/Cargo.toml";

/// The folder of what is built of [`BURN_NEXT`], in that of all builds.
pub const BURN_NEXT_FOLDER: &str = "next";

/// Tests of `burn-digits` run the programs of [`BURN_NEXT`] where this variable is set.
pub const BURN_NEXT_VARIABLE: &str = "MLPROF_TEST_BURN_NEXT";

/// tch, which looks for libtorch.
pub const TCH: Together = Together {
    packages: &["mlprof-tch", "tch-digits"],
    features: &["mlprof-tch/capture", "mlprof-tch/kineto-oracle", "mlprof-tch/otlp"],
    profile: "tested",
};

/// The command, and what it asks traces. What reads whole frameworks, and traces, is optimised a little in this profile.
pub const COMMAND: Together = Together {
    packages: &["mlprof", "mlprof-analysis", "mlprof-instrument"],
    features: &["mlprof/parquet", "mlprof-analysis/parquet"],
    profile: "quick",
};

impl Together {
    /// What cargo is told behind `build` or `test`.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        // A workspace of its own has no such package, and nothing to build together with.
        let has_unification = self.packages != BURN_NEXT.packages;
        let packages = self.packages.iter().chain(has_unification.then_some(&UNIFICATION));
        let packages = packages.flat_map(|package| ["--package".to_owned(), (*package).to_owned()]);
        ["--profile".to_owned(), self.profile.to_owned()]
            .into_iter()
            .chain(packages)
            .chain(["--features".to_owned(), self.features.join(",")])
    }
}
