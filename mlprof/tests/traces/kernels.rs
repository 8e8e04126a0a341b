//! Compares kernels on real devices with the results of another program.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{mlprof, text};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/kernels/");

/// Returns the calls and nanoseconds of each kernel, with the other program's categories.
fn expected(device: &str) -> BTreeMap<String, (u64, i64, String)> {
    let table = std::fs::read_to_string(format!("{FOLDER}{device}.kernels.tsv")).expect("a table");
    let mut kernels: BTreeMap<String, (u64, i64, String)> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let [category, _, calls, total, _, _, name] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let total = total.parse::<f64>().expect("microseconds");
        let of = kernels.entry(name.to_owned()).or_default();
        of.0 += calls.parse::<u64>().expect("a count");
        of.1 += (total * 1e3).round() as i64;
        of.2 = category.to_owned();
    }
    kernels
}

#[test]
fn kernels_have_the_calls_and_times_that_another_program_finds() {
    for (device, count) in [("h100-vit", 14), ("mi300-vit", 16)] {
        let output = mlprof(&["analyze", "--json", &format!("{FOLDER}{device}.json.gz")]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let kernels = json["traces"][0]["devices"][0]["kernels"].as_array().expect("kernels");
        // The other program does not count fills as kernels.
        let kernels = kernels.iter().filter(|row| row["category"] != "memset");
        let found: BTreeMap<String, (u64, i64, String)> = kernels
            .map(|row| {
                let name = row["name"].as_str().expect("a name").to_owned();
                let category = row["category"].as_str().expect("a category").to_owned();
                let calls = row["calls"].as_u64().expect("a count");
                (name, (calls, row["total_ns"].as_i64().expect("a time"), category))
            })
            .collect();
        let expected = expected(device);
        assert_eq!(expected.len(), count);
        assert!(found.keys().eq(expected.keys()), "{found:#?}");
        for (name, (calls, total, category)) in &expected {
            let own = &found[name];
            assert_eq!((own.0, own.1), (*calls, *total), "{name}");
            let same = match category.as_str() {
                "GEMM" => "gemm",
                "NORM_fwd" => "normalisation",
                "CONV_fwd" => "convolution",
                "elementwise" => "elementwise",
                // The other program has no category for these kernels.
                "other" if name.contains("CatArray") => "copy",
                "other" => "attention",
                category => panic!("{category}"),
            };
            assert_eq!(own.2, same, "{name}");
        }
    }
}

#[test]
fn the_hottest_kernel_is_in_the_text_and_on_the_page() {
    let trace = format!("{FOLDER}mi300-vit.json.gz");
    let output = mlprof(&["analyze", &trace]);
    let printed = text(&output.stdout);
    for part in ["Device 2: kernels by category", "attn_fwd", "Cijk_Alik_Bljk_B_BS_BH…", "GEMM"] {
        assert!(printed.contains(part), "{part:?} is missing in:\n{printed}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let output = mlprof(&["analyze", &trace, "--html", super::path(&page)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let html = std::fs::read_to_string(&page).expect("a page");
    let device = html.find(">Device 2").expect("a device");
    let kernels = html[device..].find("attn_fwd").expect("a kernel");
    let times = html[device..].find("Device time by activity").expect("a table");
    assert!(kernels < times, "kernels come first");
}
