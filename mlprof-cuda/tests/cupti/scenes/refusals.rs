//! Scenes without CUPTI. Training must continue, and the report must explain the missing kernels.

use mlprof_core::profile;

use super::{RunResults, op, record};

/// Records a training without a device and checks its host data.
fn trained() -> RunResults {
    let ran = record(|_| {
        for _ in 0..3 {
            let _forward = profile!("forward");
            op("aten::mm", || std::hint::black_box(1));
        }
    });
    assert_eq!((ran.row("forward").calls, ran.row("aten::mm").calls), (3, 3));
    assert!(!ran.text.contains("Self CUDA"), "{}", ran.text);
    ran
}

/// Checks that there is one note that contains all these parts.
fn says(ran: &RunResults, parts: &[&str]) {
    let [note] = ran.notes() else { panic!("{:?}", ran.notes()) };
    assert!(note.starts_with("no CUDA kernels and copies: "), "{note}");
    assert!(parts.iter().all(|part| note.contains(part)), "{note}");
    assert!(ran.text.contains(note.as_str()) || ran.text.contains(&note[..40]), "{}", ran.text);
}

pub fn claimed() {
    says(&trained(), &["CUPTI for Kineto is using CUPTI", "one user at a time"]);
}

pub fn not_permitted() {
    let parts = ["NVreg_RestrictProfilingToAdminUsers=0", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"];
    says(&trained(), &parts);
}

pub fn too_new() {
    says(&trained(), &["libcupti.so.12 does not start with this driver", "MLPROF_CUPTI_LIBRARY"]);
}

pub fn no_driver() {
    says(&trained(), &["driver"]);
}

pub fn another_library() {
    says(&trained(), &["libcuda.so.1: ", "undefined symbol: cupti"]);
}

pub fn no_library() {
    says(&trained(), &["nothing.so: "]);
}
