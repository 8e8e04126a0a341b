//! Lets dynolog's daemon request a trace from a training, and reads the trace with Python.

use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::Running;
use tests::python;

use crate::long_training::{prepared, unwatched_accuracy};

/// Python script that checks the steps in a trace: they have the requested numbers, are complete,
/// and contain the trainer's actions.
const STEPS: &str = r##"
import json, sys
events = json.load(open(sys.argv[1], encoding="utf-8"))["traceEvents"]
slices = [event for event in events if event["ph"] == "X"]
steps = sorted((e for e in slices if e["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
numbers = [int(step["name"].split("#")[1]) for step in steps]
assert len(numbers) == 3 and numbers == list(range(numbers[0], numbers[0] + 3)), numbers
assert numbers[0] % 10 == 0, numbers
for step in steps:
    inside = [e for e in slices if step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"]]
    assert len([e for e in inside if e["name"] == "run_training_batch"]) == 1, step
"##;

/// Size of a message header in bytes, which contains the message's length and kind.
const HEADER: usize = 40;

fn message(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u64).to_ne_bytes().to_vec();
    message.extend(kind.as_bytes());
    message.resize(HEADER, 0);
    message.extend(body);
    message
}

/// Receives the next request of the process. Returns its address, and `true` if it expects a
/// response.
fn question(daemon: &UnixDatagram) -> (SocketAddr, bool) {
    let mut bytes = [0; 4096];
    loop {
        let (_, from) = daemon.recv_from(&mut bytes).expect("it asks");
        if bytes[8..].starts_with(b"req\0") {
            return (from, bytes[HEADER..HEADER + 4] == 2_i32.to_ne_bytes());
        }
        daemon.send_to_addr(&message("ctxt", &1_i32.to_ne_bytes()), &from).expect("sent");
    }
}

fn record(running: &mut Running, daemon: &UnixDatagram, folder: &Path) {
    running.wait_until_it_says("epoch 2/");
    let config = format!(
        "ACTIVITIES_LOG_FILE={}\nPROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=10\n\
         ACTIVITIES_ITERATIONS=3\n",
        folder.join("trace.json").display()
    );
    loop {
        let (from, wants) = question(daemon);
        let body = if wants { config.as_bytes() } else { b"" };
        daemon.send_to_addr(&message("req", body), &from).expect("sent");
        if wants {
            break;
        }
    }
    running.wait_until_it_says("3 steps requested by dynolog are in ");
}

#[test]
fn a_daemon_gets_its_trace_and_the_training_learns_the_same() {
    let (directory, folder) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let daemon = UnixDatagram::bind(folder.path().join("dynolog")).expect("a socket");
    daemon.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let config = folder.path().join("libkineto.conf");
    std::fs::write(&config, "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n").expect("written");
    let run = prepared(directory.path(), "none")
        .env("KINETO_USE_DAEMON", "1")
        .env("KINETO_CONFIG", &config)
        .env("KINETO_IPC_SOCKET_DIR", folder.path())
        .env("KINETO_ONDEMAND_TRACE_DIR", folder.path());
    let mut running = run.start();
    record(&mut running, &daemon, folder.path());
    let number = running.number();
    let finished = running.finish();
    assert!(finished.status.success(), "{finished:#?}");
    assert_eq!(test_accuracy(&finished.stdout), unwatched_accuracy());
    python::run(STEPS, &[&folder.path().join(format!("trace_{number}.json"))]);
}
