//! Detects changes in burn's loops, which this crate reimplements with every part measured.

use std::path::PathBuf;
use std::process::Command;

/// The reviewed versions of burn-train.
const VERSIONS: [&str; 2] = ["0.22", "0.23"];

/// A file of burn-train, its hash in each of the reviewed [`VERSIONS`], and the files of this crate
/// that follow it. The hash is `None` if a version does not have the file.
const FOLLOWED: [(&str, [Option<u64>; 2], &str); 21] = [
    (
        "evaluator/base.rs",
        [Some(0xd74d_2e9f_63cf_fda8), Some(0x1529_3d20_64c4_d321)],
        "evaluation/mod.rs, loader.rs",
    ),
    (
        "evaluator/builder.rs",
        [Some(0x3ce8_c08f_1a19_4b97), Some(0x3ce8_c08f_1a19_4b97)],
        "evaluation/mod.rs",
    ),
    (
        "learner/base.rs",
        [Some(0xcbeb_638c_d4be_e4ac), Some(0xcbeb_638c_d4be_e4ac)],
        "stop.rs, strategy/run.rs",
    ),
    (
        "learner/rl/off_policy.rs",
        [Some(0x4a61_c080_3bcc_f3f7), Some(0x7c60_ab5c_876d_3857)],
        "rl.rs",
    ),
    ("learner/rl/strategy.rs", [Some(0xf47b_9e0b_2b3f_0c4d), Some(0xf47b_9e0b_2b3f_0c4d)], "rl.rs"),
    (
        "learner/supervised/paradigm.rs",
        [Some(0xe326_278d_4cb0_8e3c), Some(0xe326_278d_4cb0_8e3c)],
        "training/mod.rs, strategy/mod.rs",
    ),
    (
        "learner/supervised/step/train.rs",
        [Some(0x7e2c_5b4b_04f1_7088), Some(0xfaa4_d2fe_43d9_28c9)],
        "strategy/multi.rs",
    ),
    (
        "learner/supervised/strategies/base.rs",
        [Some(0x8298_5227_562b_a2ba), Some(0xd734_e539_caf3_99a3)],
        "strategy/mod.rs",
    ),
    (
        "learner/supervised/strategies/ddp/epoch.rs",
        [Some(0x9f8f_6f1b_a9e7_43e6), Some(0x8526_947b_7ac5_f56b)],
        "strategy/ddp.rs, strategy/single.rs",
    ),
    (
        "learner/supervised/strategies/ddp/processor.rs",
        [None, Some(0xe53a_a5dd_7b4e_987a)],
        "version/burn_0_23.rs, strategy/events.rs",
    ),
    (
        "learner/supervised/strategies/ddp/step.rs",
        [None, Some(0x294a_64e4_7cfd_88d9)],
        "strategy/agreement.rs",
    ),
    (
        "learner/supervised/strategies/ddp/strategy.rs",
        [Some(0xc592_5d9d_42e3_a1bb), Some(0x5658_4a2e_6d16_d081)],
        "strategy/ddp.rs",
    ),
    (
        "learner/supervised/strategies/ddp/worker.rs",
        [Some(0x7ace_4a47_64ea_a63a), Some(0x772a_1da0_5d74_6e3b)],
        "strategy/ddp.rs",
    ),
    (
        "learner/supervised/strategies/multi/epoch.rs",
        [Some(0xb530_3546_e43a_2169), Some(0x7697_1a30_b2b2_be70)],
        "strategy/multi.rs",
    ),
    (
        "learner/supervised/strategies/multi/strategy.rs",
        [Some(0x152e_02bb_3fcd_d5d0), Some(0x392f_9647_d99f_1cd6)],
        "strategy/multi.rs",
    ),
    (
        "learner/supervised/strategies/single/epoch.rs",
        [Some(0x9b6f_d9d0_5ba1_1dc4), Some(0x8c08_05b9_d235_7b69)],
        "strategy/single.rs, strategy/run.rs",
    ),
    (
        "learner/supervised/strategies/single/strategy.rs",
        [Some(0x84c9_1a87_cb45_ea5b), Some(0x8e7e_3dcb_87f8_94dd)],
        "strategy/single.rs, strategy/run.rs",
    ),
    (
        "learner/train_val.rs",
        [Some(0x0440_1381_cea8_f113), Some(0x0440_1381_cea8_f113)],
        "strategy/single.rs, strategy/run.rs",
    ),
    (
        "logger/progress.rs",
        [Some(0x7c66_a4e4_1b00_c2a4), Some(0x66c4_8689_6c3d_bd3b)],
        "progress.rs, renderer.rs, version/burn_0_22.rs, version/burn_0_23.rs",
    ),
    (
        "metric/processor/base.rs",
        [Some(0x9e11_4254_d538_1ee9), Some(0x89d7_b1f8_d923_4a13)],
        "processor.rs, strategy/run.rs",
    ),
    (
        "metric/processor/rl_processor.rs",
        [Some(0x950c_0dde_5c9d_e6ea), Some(0xcac0_ad82_2eb3_199a)],
        "rl.rs",
    ),
];

/// Returns the source directory of the burn-train version that this crate is built with.
fn sources() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package =
        packages.iter().find(|package| package["name"] == "burn-train").expect("it is there");
    let manifest = package["manifest_path"].as_str().expect("a path");
    PathBuf::from(manifest).with_file_name("src")
}

/// Computes an FNV-1a hash.
fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn the_loops_are_those_of_the_version_that_was_read() {
    let sources = sources();
    let version = usize::from(cfg!(burn_0_23));
    let changed = FOLLOWED.iter().filter_map(|(file, known, own)| {
        let found = std::fs::read(sources.join(file)).map(|bytes| hash(&bytes)).ok();
        (found != known[version]).then(|| match found {
            Some(hash) => format!("{file} has changed (now {hash:#018x}): review src/{own}"),
            None => format!("{file} is not there any more: review src/{own}"),
        })
    });
    let changed: Vec<_> = changed.collect();
    assert!(
        changed.is_empty(),
        "burn-train in {} is not the {} that this crate's loops follow. Compare each file with the \
         version before, change ours alike, then write the new hash into this test.\n{}",
        sources.display(),
        VERSIONS[version],
        changed.join("\n")
    );
}
