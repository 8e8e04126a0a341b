//! Helpers for rows of a table.

use mlprof_core::ActionKind;
use mlprof_core::report::tensor::{KeyAverage, KeyAverageParts, KeyAverages, KeyAveragesParts};

/// Returns a row in which all numbers are 0.
pub fn row(name: &str) -> KeyAverage {
    KeyAverageParts {
        name: name.to_owned(),
        kind: ActionKind::Op,
        ..KeyAverages::default().total_average().into()
    }
    .build()
}

/// Returns the only row with this name.
pub fn find<'rows>(averages: &'rows KeyAverages, name: &str) -> &'rows KeyAverage {
    let mut rows = averages.rows.iter().filter(|row| row.name == name);
    let row = rows.next().unwrap_or_else(|| panic!("{name} in {averages:?}"));
    assert!(rows.next().is_none(), "{name} is several rows");
    row
}

#[test]
fn tables_are_sorted_by_calls_mean_memory_and_operations() {
    use mlprof_core::report::tensor::{SortKey, TableOptions};
    let with = |name: &str, change: fn(&mut KeyAverage)| {
        let mut row = row(name);
        row.calls = 1;
        change(&mut row);
        row
    };
    let rows = vec![
        with("plain", |_| {}),
        with("often", |row| row.calls = 9),
        with("slow", |row| (row.calls, row.cpu_seconds) = (2, 8.0)),
        with("long", |row| (row.calls, row.cpu_seconds) = (8, 16.0)),
        with("busy", |row| row.self_cpu_seconds = 3.0),
        with("hungry", |row| (row.self_cpu_memory_bytes, row.self_device_memory_bytes) = (5, 7)),
        with("hungry on the host", |row| row.self_cpu_memory_bytes = 11),
        with("many operations", |row| row.flops = 5),
    ];
    let averages =
        KeyAveragesParts { rows, has_memory: true, ..KeyAverages::default().into() }.build();
    let first = |key: &str| {
        let sort_by: SortKey = key.parse().expect("a key");
        let options = TableOptions { sort_by: Some(sort_by), ..TableOptions::default() };
        let table = averages.table(&options);
        let rows = table.lines().skip_while(|line| !line.contains("# of Calls")).skip(2);
        rows.map(|row| row.trim().split("  ").next().unwrap_or_default().to_owned()).next()
    };
    let expected = [
        ("calls", "often"),
        ("count", "often"),
        ("mean", "slow"),
        ("total", "long"),
        ("self", "busy"),
        ("memory", "hungry"),
        ("flops", "many operations"),
    ];
    for (key, name) in expected {
        assert_eq!(first(key).as_deref(), Some(name), "{key}");
    }
    let error = "speed".parse::<SortKey>().expect_err("no such key").to_string();
    assert!(error.contains("\"calls\"") && error.contains("\"memory\""), "{error}");
}

/// Checks equal layers deep in a model. Their paths differ only at the end.
#[test]
fn modules_with_long_paths_can_be_told_apart() {
    use mlprof_core::report::tensor::TableOptions;
    let layers = [0, 1].map(|layer| {
        let path = format!("model.language.encoder.block.{layer}.attention.projection");
        let mut row = row(&format!("[module]Linear: {path}"));
        row.kind = ActionKind::Module;
        row
    });
    let averages =
        KeyAveragesParts { rows: layers.to_vec(), ..KeyAverages::default().into() }.build();
    let shown = |width: usize| -> Vec<String> {
        let max_name_column_width = Some(width);
        let table =
            averages.table(&TableOptions { max_name_column_width, ..TableOptions::default() });
        let names = table.lines().filter(|line| line.contains("[module]"));
        names.map(|line| line.trim().split("  ").next().unwrap_or_default().to_owned()).collect()
    };
    let cut = [0, 1]
        .map(|layer| format!("[module]Linear: ...encoder.block.{layer}.attention.projection"));
    assert_eq!(cut[0].len(), 55);
    assert_eq!(shown(55), cut);
    let whole = [0, 1].map(|layer| layers[layer].name.clone());
    assert_eq!(shown(whole[0].len()), whole, "what has room is not cut");
    assert_eq!(shown(20), ["[module]Linear: m...", "[module]Linear: m..."], "no room for an end");
}

/// Checks a PyTorch lambda kernel, which has a name of about 500 characters. Its function precedes
/// the brackets, and they end far beyond the width of a text line.
#[test]
fn kernels_with_long_arguments_keep_their_function() {
    use mlprof_core::report::tensor::TableOptions;
    let lambda = "at::native::addcdiv_cuda_kernel(at::TensorIteratorBase&, c10::Scalar const&)::\
                  {lambda()#2}::operator()() const::{lambda()#7}::operator()() const::\
                  {lambda(float, float, float)#1}, std::array<char*, 4ul>";
    let name =
        format!("void at::native::vectorized_elementwise_kernel<4, {lambda} >(int, {lambda})");
    let mut kernel = row(&name);
    (kernel.kind, kernel.is_on_device) = (ActionKind::Kernel, true);
    let averages = KeyAveragesParts { rows: vec![kernel], ..KeyAverages::default().into() }.build();
    let table = averages.table(&TableOptions::default());
    assert!(table.contains("at::native::vectorized_elementwise_kernel<4, …> "), "{table}");
}
