//! Ends a process during a recording. libtorch destroys its list of callbacks at exit, and our code
//! must not use it afterwards.

use std::ffi::c_int;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mlprof_core::tensor::TensorProfiler;
use mlprof_core::{Profiler, activate};
use mlprof_tch::kineto::has_callbacks;
use tch::{Tensor, kind::FLOAT_CPU};

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Environment variable that marks the child process, which exits during a recording.
const MEASURED: &str = "MLPROF_TEST_ENDS_MEASURED";

/// Exit statuses of that process.
const STILL_THERE: c_int = 41;
const LATE_HANDLER_DID_NOT_RUN: c_int = 42;

static PROFILER: std::sync::Mutex<Option<Arc<TensorProfiler>>> = std::sync::Mutex::new(None);
static TURNED_OFF: AtomicBool = AtomicBool::new(false);

/// Ends the recording. It is registered before `main`, like our own exit handlers, and therefore
/// runs after libtorch's destructors.
extern "C" fn turn_off() {
    if let Some(profiler) = PROFILER.lock().ok().and_then(|mut profiler| profiler.take()) {
        profiler.teardown(None);
        TURNED_OFF.store(true, Ordering::Relaxed);
    }
}

/// Checks that the recording was ended. It is registered before all other handlers and therefore
/// runs last.
extern "C" fn check_end() {
    if std::env::var_os(MEASURED).is_some() && !TURNED_OFF.load(Ordering::Relaxed) {
        // SAFETY: `_exit` accepts any status and ends the process immediately.
        unsafe { _exit(LATE_HANDLER_DID_NOT_RUN) };
    }
}

/// Checks that no callback remains. It is registered after libtorch created its list and therefore
/// runs before the list is destroyed.
extern "C" fn check_callbacks() {
    if has_callbacks() {
        // SAFETY: `_exit` accepts any status and ends the process immediately.
        unsafe { _exit(STILL_THERE) };
    }
}

extern "C" fn before_main() {
    for handler in [check_end, turn_off] {
        // SAFETY: both handlers are `extern "C"` functions that live as long as the program and do
        // not panic. They use nothing that is destroyed before they run.
        unsafe { atexit(handler) };
    }
}

// SAFETY: the function only registers two handlers. `atexit` of the C library works before `main`.
mlprof_core::before_main!(unsafe before_main);

fn end_while_measured() {
    let ones = Tensor::ones([2, 2], FLOAT_CPU);
    assert!(!has_callbacks(), "libtorch's list is there now, and empty");
    // SAFETY: the handler is an `extern "C"` function that lives as long as the program and does
    // not panic. It runs before libtorch destroys its list.
    unsafe { atexit(check_callbacks) };
    let profiler = Arc::new(TensorProfiler::new().without_schedule().profile_memory(true));
    std::mem::forget(activate(profiler.clone()));
    assert!(has_callbacks(), "ops are recorded");
    let _ = ones.matmul(&ones);
    *PROFILER.lock().expect("no panic") = Some(profiler);
}

#[test]
fn callbacks_are_removed_before_libtorch_destroys_its_list() {
    if std::env::var_os(MEASURED).is_some() {
        return end_while_measured();
    }
    let test = "callbacks_are_removed_before_libtorch_destroys_its_list";
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(MEASURED, "1");
    // Freed memory is overwritten, so that a use after free becomes visible.
    let output = command.env("MALLOC_PERTURB_", "165").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(STILL_THERE), "the callback outlives libtorch's list");
    assert!(output.status.success(), "{:?}: {said}", output.status);
}
