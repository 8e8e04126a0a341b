//! burn's loops are written again in this crate, with every part measured. This test notices when
//! burn changes one.

use std::path::PathBuf;
use std::process::Command;

/// A file of burn-train, the hash of the version that was read, and the files of this crate that
/// follow it.
const FOLLOWED: [(&str, u64, &str); 17] = [
    ("evaluator/base.rs", 0xd74d_2e9f_63cf_fda8, "evaluation/mod.rs, loader.rs"),
    ("evaluator/builder.rs", 0x3ce8_c08f_1a19_4b97, "evaluation/mod.rs"),
    ("learner/base.rs", 0xcbeb_638c_d4be_e4ac, "stop.rs, strategy/run.rs"),
    ("learner/rl/off_policy.rs", 0x4a61_c080_3bcc_f3f7, "rl.rs"),
    ("learner/rl/strategy.rs", 0xf47b_9e0b_2b3f_0c4d, "rl.rs"),
    ("learner/supervised/paradigm.rs", 0xe326_278d_4cb0_8e3c, "training/mod.rs, strategy/mod.rs"),
    ("learner/supervised/step/train.rs", 0x7e2c_5b4b_04f1_7088, "strategy/multi.rs"),
    ("learner/supervised/strategies/base.rs", 0x8298_5227_562b_a2ba, "strategy/mod.rs"),
    (
        "learner/supervised/strategies/ddp/epoch.rs",
        0x9f8f_6f1b_a9e7_43e6,
        "strategy/ddp.rs, strategy/single.rs",
    ),
    ("learner/supervised/strategies/ddp/strategy.rs", 0xc592_5d9d_42e3_a1bb, "strategy/ddp.rs"),
    ("learner/supervised/strategies/ddp/worker.rs", 0x7ace_4a47_64ea_a63a, "strategy/ddp.rs"),
    ("learner/supervised/strategies/multi/epoch.rs", 0xb530_3546_e43a_2169, "strategy/multi.rs"),
    ("learner/supervised/strategies/multi/strategy.rs", 0x152e_02bb_3fcd_d5d0, "strategy/multi.rs"),
    (
        "learner/supervised/strategies/single/epoch.rs",
        0x9b6f_d9d0_5ba1_1dc4,
        "strategy/single.rs, strategy/run.rs",
    ),
    (
        "learner/supervised/strategies/single/strategy.rs",
        0x84c9_1a87_cb45_ea5b,
        "strategy/single.rs, strategy/run.rs",
    ),
    ("learner/train_val.rs", 0x0440_1381_cea8_f113, "strategy/single.rs, strategy/run.rs"),
    ("metric/processor/base.rs", 0x9e11_4254_d538_1ee9, "processor.rs, strategy/run.rs"),
];

/// The sources of the burn-train that this crate is built with.
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

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn the_loops_are_those_of_the_version_that_was_read() {
    let sources = sources();
    let changed = FOLLOWED.iter().filter_map(|(file, known, own)| {
        let found = std::fs::read(sources.join(file)).map(|bytes| hash(&bytes)).ok();
        (found != Some(*known)).then(|| match found {
            Some(hash) => format!("{file} has changed (now {hash:#018x}): review src/{own}"),
            None => format!("{file} is not there any more: review src/{own}"),
        })
    });
    let changed: Vec<_> = changed.collect();
    assert!(
        changed.is_empty(),
        "burn-train in {} is not the version that this crate's loops follow. Compare each file with the \
         version before, change ours alike, then write the new hash into this test.\n{}",
        sources.display(),
        changed.join("\n")
    );
}
