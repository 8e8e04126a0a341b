//! Tests captured graphs, which wgpu can replay, also on Mesa's lavapipe.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use mlprof_core::{SimpleProfiler, activate};

use crate::recorded::{alone, device};

#[test]
fn a_replay_says_how_many_ops_it_hides_and_where_they_were_captured() {
    const REPLAYS: u64 = 7;
    let _alone = alone();
    let device = device();
    let simple = Arc::new(SimpleProfiler::new().measure_devices(true));
    let active = activate(simple.clone());
    let input = Tensor::<2>::ones([64, 64], &device);
    let weight = Tensor::<2>::ones([64, 64], &device);
    let line = line!() + 1;
    let mut graph = mlprof_burn::capture(&device, || input.clone().matmul(weight.clone()).exp());
    assert!(graph.graph().is_hardware(), "wgpu captures");
    assert_eq!(graph.ops(), Some(2));
    for _ in 0..REPLAYS {
        // SAFETY: the captured tensors live until the end of the test. Only this thread uses them,
        // on the capturing stream.
        let _ = unsafe { graph.replay() };
    }
    device.sync().expect("a device");
    drop(active);
    let report = simple.snapshot();
    let name = format!("[Graph]replay of 2 ops captured at {}:{line}", file!());
    let row = report.actions.iter().find(|row| row.action == name);
    let row = row.unwrap_or_else(|| panic!("no {name:?} in {:?}", report.actions));
    assert_eq!(row.calls, REPLAYS);
    assert_eq!(
        row.device.map(|device| device.calls),
        Some(REPLAYS),
        "a replay works on the device"
    );
    assert!(report.actions.iter().any(|row| row.action.starts_with("[Graph]capture at ")));
}

#[test]
fn a_device_that_cannot_capture_runs_the_closure_again() {
    let _alone = alone();
    let device = Device::flex();
    let simple = Arc::new(SimpleProfiler::new());
    let active = activate(simple.clone());
    let input = Tensor::<1>::ones([4], &device);
    let mut graph = mlprof_burn::capture(&device, || input.clone() + 1.0);
    // SAFETY: nothing was captured, so the replay only runs the closure again.
    let output = unsafe { graph.replay() }.clone();
    assert_eq!(output.into_data().try_to_vec::<f32>().expect("numbers"), [2.0; 4]);
    assert_eq!(graph.ops(), None);
    drop(active);
    let report = simple.snapshot();
    let is_replay = |name: &str| name.starts_with("[Graph]replay by running the closure of ");
    assert_eq!(report.actions.iter().filter(|row| is_replay(&row.action)).count(), 1);
}
