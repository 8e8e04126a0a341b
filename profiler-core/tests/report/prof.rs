use mlprof_core::report::advanced::prof::encode;
use mlprof_core::report::advanced::{
    ActionProfile, ActionProfileParts, CallStatistics, CallerStatistics, FunctionKey,
    FunctionKeyParts, FunctionStatistics,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::python;
use crate::samples::{calls, function, key, profile};

/// Returns the profile as Python reads it: a list of `[key, cc, nc, tt, ct, [[caller, nc, cc, tt,
/// ct], …]]`, with the bits of floats in hexadecimal.
fn read_by_python(profile: &ActionProfile) -> Value {
    let script = "import json, marshal, struct, sys\n\
                  bits = lambda x: struct.pack('>d', x).hex()\n\
                  with open(sys.argv[1], 'rb') as file:\n    \
                      stats = marshal.load(file)\n    \
                      assert not file.read(), 'bytes are left over'\n\
                  print(json.dumps([\n    \
                      [f, cc, nc, bits(tt), bits(ct), [\n        \
                          [g, a, b, bits(c), bits(d)] for g, (a, b, c, d) in callers.items()]]\n    \
                      for f, (cc, nc, tt, ct, callers) in stats.items()]))";
    let file = python::file(&encode(profile));
    let answer = python::run(script, &[python::path(&file)]);
    serde_json::from_str(&answer).expect("JSON")
}

/// Returns the same list, built from the profile itself.
fn expected(profile: &ActionProfile) -> Value {
    let key = |key: &FunctionKey| json!([key.file, key.line, key.name]);
    let bits = |number: f64| format!("{:016x}", number.to_bits());
    let functions =
        profile.functions.iter().map(|FunctionStatistics { function, calls, callers, .. }| {
            let callers = callers.iter().map(|CallerStatistics { caller, calls, .. }| {
                let (own, cumulative) = (bits(calls.self_seconds), bits(calls.cumulative_seconds));
                json!([key(caller), calls.total_calls, calls.primitive_calls, own, cumulative])
            });
            json!([
                key(function),
                calls.primitive_calls,
                calls.total_calls,
                bits(calls.self_seconds),
                bits(calls.cumulative_seconds),
                callers.collect::<Vec<_>>(),
            ])
        });
    Value::Array(functions.collect())
}

fn with(functions: Vec<FunctionStatistics>) -> ActionProfile {
    ActionProfileParts { functions, ..profile().into() }.build()
}

#[test]
fn python_reads_every_number_and_name() {
    let caller = key("src/lib.rs", 3, "main");
    let names = ["", "a\nb\tc\0", "größe 模型 🔥", &"x".repeat(10_000), "'\"\\"];
    let counts = [0, 1, 0x7fff, 0x7fff_ffff, 0x8000_0000, 1 << 45, u64::MAX - 1, u64::MAX];
    let mut functions = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let callers = [(&caller, calls(3_000_000_000, 5, 1e-9, 0.1))];
        functions.push(function(
            &key("src/ä.rs", number as u32, name),
            calls(2, 1, 0.1, 0.2),
            &callers,
        ));
    }
    for (count, line) in counts.into_iter().zip(u32::MAX - 20..) {
        functions.push(function(
            &key("~", line, "counts"),
            calls(count, count / 2, 1e300, 0.0),
            &[],
        ));
    }
    let profile = with(functions);
    assert_eq!(read_by_python(&profile), expected(&profile));
    assert_eq!(read_by_python(&with(vec![])), json!([]));
}

#[test]
fn python_reads_whatever_a_profile_holds() {
    let seconds = || any::<f64>().prop_map(|seconds| seconds + 0.0); // no negative zero
    let statistics = move || {
        (any::<u64>(), any::<u64>(), seconds(), seconds()).prop_map(
            |(total, primitive, own, cumulative)| calls(total, primitive, own, cumulative),
        )
    };
    let any_key = || {
        let parts = (any::<String>(), any::<u32>(), any::<String>());
        parts.prop_map(|(file, line, name)| FunctionKeyParts { file, line, name }.build())
    };
    let called_by = move || proptest::collection::hash_map(any_key(), statistics(), 0..4);
    let table = proptest::collection::hash_map(any_key(), (statistics(), called_by()), 0..50);
    let mut runner =
        TestRunner::new(Config { cases: 16, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&table, |table| {
        let functions = table.iter().map(|(key, (calls, callers))| {
            let callers: Vec<(&FunctionKey, CallStatistics)> =
                callers.iter().map(|(caller, calls)| (caller, *calls)).collect();
            function(key, *calls, &callers)
        });
        let profile = with(functions.collect());
        prop_assert_eq!(read_by_python(&profile), expected(&profile));
        Ok(())
    });
    outcome.expect("Python reads what was written");
}

#[test]
fn a_function_that_appears_twice_is_added_up() {
    let (twice, caller) = (key("a.rs", 1, "f"), key("~", 0, "step"));
    let half = function(&twice, calls(3, 2, 0.25, 0.5), &[(&caller, calls(2, 2, 0.25, 0.5))]);
    let whole = function(&twice, calls(6, 4, 0.5, 1.0), &[(&caller, calls(4, 4, 0.5, 1.0))]);
    assert_eq!(read_by_python(&with(vec![half.clone(), half])), expected(&with(vec![whole])));
}

/// Checks the totals, the table of callers and `dump_stats` of `pstats` itself.
#[test]
fn pstats_opens_it() {
    let script = "import pstats, sys\n\
                  stats = pstats.Stats(sys.argv[1], stream=sys.stdout)\n\
                  print(stats.prim_calls, stats.total_calls, len(stats.stats))\n\
                  stats.print_callers('fetch')\n\
                  stats.print_callees()\n\
                  stats.add(sys.argv[1])";
    let profile = profile();
    let file = python::file(&encode(&profile));
    let text = python::run(script, &[python::path(&file)]);
    let sum = |pick: fn(&CallStatistics) -> u64| -> u64 {
        profile.functions.iter().map(|function| pick(&function.calls)).sum()
    };
    let (primitive, total) = (sum(|calls| calls.primitive_calls), sum(|calls| calls.total_calls));
    assert!(text.starts_with(&format!("{primitive} {total} 75\n")), "{text}");
    // pstats shows the recursive calls like this: all calls, none of them primitive.
    assert!(text.contains("1876/0    0.001    9.000  src/tree.rs:42(fetch)"), "{text}");
}
