//! Rows, limits and steps of rooflines.

use super::devices::Device;
use super::roofs::{Bound, Roofs};
use super::{OpUse, compare, text};
use crate::machine::{BandwidthPoint, Peaks, Processor, ProductPeak, Rate};

fn peaks() -> Peaks {
    let rate = |per_second: f64| Rate { per_second, spread: 0.01 };
    let product = |dtype: &str, threads, flops| ProductPeak {
        dtype: dtype.to_owned(),
        threads,
        flops: rate(flops),
    };
    let point = |threads, working_set_bytes, bytes: f64| BandwidthPoint {
        threads,
        working_set_bytes,
        read: rate(bytes),
        write: rate(bytes / 2.0),
        copy: rate(bytes / 4.0),
    };
    Peaks {
        schema_version: Peaks::SCHEMA_VERSION,
        processor: Processor {
            system: "linux x86_64".to_owned(),
            cpu: Some("A CPU".to_owned()),
            cores: 3,
            governor: None,
            last_cache_bytes: None,
        },
        kernel: "avx2".to_owned(),
        measured_in_seconds: 0.2,
        products: vec![
            product("f32", 1, 100e9),
            product("f64", 1, 50e9),
            product("f32", 3, 300e9),
            product("f64", 3, 150e9),
        ],
        bandwidth: vec![
            point(1, 1 << 14, 100e9),
            point(1, 1 << 26, 10e9),
            point(3, 1 << 14, 300e9),
            point(3, 1 << 26, 20e9),
        ],
        empty_call_seconds: 20e-9,
    }
}

fn processor(threads: u64) -> Roofs {
    Roofs::Processor { peaks: Box::new(peaks()), threads }
}

fn op(name: &str, calls: u64, seconds: f64, flops: u64, bytes: Option<u64>) -> OpUse {
    OpUse {
        name: name.to_owned(),
        dtype: Some("f32"),
        module: Some("head: Linear".to_owned()),
        calls,
        seconds,
        host_seconds: seconds,
        is_on_device: false,
        flops,
        bytes,
    }
}

#[test]
fn roofs_follow_threads_working_set_and_type() {
    let [one, two, three] = [1, 2, 3].map(processor);
    let flops = [&one, &two, &three].map(|roofs| roofs.flops("f32", 0.0));
    assert_eq!(flops, [Some(100e9), Some(200e9), Some(300e9)]);
    assert_eq!(one.flops("f64", 0.0), Some(50e9));
    assert_eq!(one.bandwidth(1.0), 100e9, "smaller than the smallest set");
    assert_eq!(one.bandwidth(1e12), 10e9, "larger than the largest set");
    // Halfway between 2^14 and 2^26 on a logarithmic scale.
    let middle = one.bandwidth(f64::from(1 << 20));
    assert!((middle - 55e9).abs() < 1.0, "{middle}");
    assert_eq!(two.bandwidth(1e12), 15e9);
}

#[test]
fn tf32_is_the_roof_of_faster_products() {
    let flops = [("f32", 60e12), ("tf32", 500e12), ("bf16", 1000e12)];
    let flops = flops.map(|(dtype, peak)| (dtype.to_owned(), peak)).into();
    let roofs = Roofs::Device(Device { name: "X".to_owned(), bandwidth: 3e12, flops });
    assert_eq!(roofs.flops("f32", 10e12), Some(60e12));
    assert_eq!(roofs.flops("f32", 61e12), Some(500e12));
    assert_eq!(roofs.flops("bf16", 0.0), Some(1000e12));
    assert_eq!(roofs.flops("f8", 0.0), None);
}

#[test]
fn the_nearer_roof_limits_an_op() {
    let ops = [
        // 1e9 operations take 10 ms at 100 GFLOP/s, and 1e6 bytes at most 0.1 ms.
        op("aten::mm", 1, 0.02, 1_000_000_000, Some(1_000_000)),
        // 1e9 bytes per call take 0.1 s at 10 GB/s.
        op("aten::add", 2, 0.4, 0, Some(2_000_000_000)),
        op("aten::mul", 1000, 2e-3, 0, Some(12_000)),
        op("aten::view", 10, 10e-6, 0, Some(0)),
        op("aten::_local_scalar_dense", 1, 1.0, 0, Some(4)),
        op("aten::nonzero", 1, 9.0, 0, None),
    ];
    let roofline = compare(&ops, &processor(1), Some((2, 2.0)), Vec::new());
    let found: Vec<_> = roofline.ops.iter().map(|row| (row.name.as_str(), row.bound_by)).collect();
    let expected = [
        ("aten::_local_scalar_dense", Bound::Waiting),
        ("aten::add", Bound::Memory),
        ("aten::mm", Bound::Compute),
        // It takes 2 µs, and a view takes 1 µs.
        ("aten::mul", Bound::Launch),
    ];
    assert_eq!(found, expected);
    let share = |name: &str| {
        roofline.ops.iter().find(|row| row.name == name).map(|row| (row.roof_share * 1e6).round())
    };
    assert_eq!(share("aten::mm"), Some(0.5e6));
    assert_eq!(share("aten::add"), Some(0.5e6));
    let [head] = &roofline.modules[..] else { panic!("{:?}", roofline.modules) };
    assert_eq!((head.calls, head.flops), (1004, 1_000_000_000));
    let steps = roofline.steps.as_ref().expect("steps");
    assert!((steps.mfu - 0.005).abs() < 1e-9, "{steps:?}");
    assert!((steps.least_seconds - 0.21).abs() < 1e-3, "{steps:?}");
    let table = text(&roofline, 2);
    assert!(table.contains("MFU: 0.5 %"), "{table}");
    assert!(table.contains("2 more rows"), "{table}");
    assert!(table.contains("aten::add") && !table.contains("aten::mm"), "{table}");
}
