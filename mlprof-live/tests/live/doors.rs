//! Tests the socket: its existence, the access control, and its behaviour at exit and after a fork.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use mlprof_events::Stage;
use mlprof_events::live::{LONGEST_REQUEST, ProcessIdentity, Request, socket_of};

use crate::asking::{Connection, Program, slices, steps, wait_until};
use crate::program::SCENE;

pub fn nothing_listens_unasked() {
    for live in ["", "0"] {
        let program = Program::start_with("none", live);
        assert!(!program.folder.path().join("mlprof").exists(), "MLPROF_LIVE={live}");
        let (_, _, errors) = program.end();
        assert_eq!(errors, "");
    }
    let program = Program::start_with("none", "perhaps");
    assert!(!program.folder.path().join("mlprof").exists());
    let (status, _, errors) = program.end();
    assert!(status.success());
    let said =
        "mlprof: MLPROF_LIVE=perhaps: it is neither 1 (on) nor 0 (off); live inspection is off\n";
    assert_eq!(errors.matches(said).count(), 1, "{errors}");
}

/// The session's own stage and steps are visible, in addition to those of the profiler that
/// measures it.
pub fn a_session_listens_where_it_asks_to() {
    let mut program = Program::start_with("session", "");
    program.steps(4);
    let state = program.state();
    assert_eq!(state.profilers, ["simple"]);
    let [training] = &state.trainings[..] else { panic!("one training: {state:?}") };
    assert_eq!((training.stage, training.steps), (Some(Stage::Fit), 4));
    let mut connection = program.connect();
    connection.ask(Request::Record(steps(2)));
    program.wait_until(|state| state.is_recording);
    program.steps(5);
    let (recorded, trace) = connection.recorded();
    assert_eq!((recorded.steps, slices(&trace, "training_step")), (2, 2));
    program.tell("end");
    let (status, said, errors) = program.end();
    assert!(status.success() && said.contains("reported: true"), "{said}");
    assert_eq!(errors, "");
    // A listener that the environment forbids is not opened.
    let program = Program::start_with("session", "0");
    assert!(!program.folder.path().join("mlprof").exists());
    assert_eq!(program.end().2, "");
}

pub fn bad_requests_are_answered() {
    let mut program = Program::start("none");
    let mut connection = program.connect();
    connection.write(b"GET / HTTP/1.1\n");
    assert!(connection.error().starts_with("the request is not JSON: "));
    connection.write(b"{\"version\": 1, \"request\": \"record\", \"steps\": 0}\n");
    assert_eq!(connection.error(), "cannot record 0 steps: use 1 to 10000");
    connection.write(b"\xff\xfe\0\n");
    assert!(connection.error().starts_with("the request is not JSON: "));
    assert_eq!(connection.state().trainings.len(), 1, "the connection is as good as before");
    let mut long = vec![b' '; LONGEST_REQUEST as usize + 1];
    connection.write(&long);
    assert!(connection.error().contains("a line is longer than 65536 bytes"));
    assert_eq!(connection.answer(), None, "it is closed");
    long.truncate(10);
    program.connect().write(&long);
    program.steps(3);
    assert_eq!(program.state().trainings[0].steps, 3);
    assert!(program.end().0.success());
}

pub fn so_many_may_ask_at_once() {
    let program = Program::start("none");
    let mut all: Vec<Connection> = (0..16).map(|_| program.connect()).collect();
    all.iter_mut().for_each(|connection| assert_eq!(connection.state().trainings.len(), 1));
    let error = program.connect().error();
    assert_eq!(error, "the process already has 16 connections; try again later");
    drop(all);
    wait_until(|| program.connect().is_heard());
}

/// Raises the limit of open files of this process and its children to the maximum.
fn raise_limit_of_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both pointers refer to `limit`, which is initialised and outlives the calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// Returns `true` if an answer is available.
fn has_been_answered(stream: &UnixStream) -> bool {
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: `byte` is a local variable that is valid for a write of one byte. The stream keeps
    // the descriptor open.
    unsafe { libc::recv(stream.as_raw_fd(), (&raw mut byte).cast(), 1, flags) > 0 }
}

pub fn a_thousand_connections_do_not_hold_it_up() {
    raise_limit_of_files();
    let mut program = Program::start("none");
    let all: Vec<UnixStream> = (0..1000)
        .map(|_| UnixStream::connect(program.socket()).expect("it takes all of them"))
        .collect();
    program.steps(100);
    // Sixteen clients are accepted, and each has ten seconds for its request. All other clients
    // were refused.
    wait_until(|| all.iter().filter(|stream| has_been_answered(stream)).count() > 900);
    let threads = fs::read_dir(format!("/proc/{}/task", program.child.id())).expect("threads");
    assert!(threads.count() < 16 + 10, "no thread for each of them");
    drop(all);
    wait_until(|| program.connect().is_heard());
    assert_eq!(program.state().trainings[0].steps, 100);
    assert!(program.end().0.success());
}

/// The process is killed while one client follows it and another one records.
pub fn a_process_that_is_killed_is_gone_for_its_watchers() {
    let mut program = Program::start("none");
    let mut following = program.connect();
    following.ask(Request::Follow { interval_milliseconds: 50, actions: true });
    assert!(following.answer().is_some());
    let mut recording = program.connect();
    recording.ask(Request::Record(steps(100)));
    program.wait_until(|state| state.is_recording);
    program.steps(3);
    program.child.kill().expect("it is there");
    following.read_to_its_end();
    recording.read_to_its_end();
    // A killed process cannot remove its socket file.
    let socket = program.socket();
    assert_eq!(program.end().0.signal(), Some(libc::SIGKILL));
    assert!(UnixStream::connect(socket).is_err(), "nobody listens there any more");
}

/// Other users are refused even if the permissions of the folder and the socket would admit them.
pub fn another_user_is_refused() {
    let program = Program::start("none");
    // SAFETY: `geteuid` takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("  skipped: only root can be somebody else");
    }
    let socket = program.socket();
    let open = |path: &Path| {
        fs::set_permissions(path, Permissions::from_mode(0o777)).expect("it is ours");
    };
    socket.ancestors().take_while(|path| path.starts_with(program.folder.path())).for_each(open);
    let mut stranger = Command::new(std::env::current_exe().expect("this program"));
    stranger.env(SCENE, "stranger").env("MLPROF_LIVE", "0").env("MLPROF_TEST_TO", &socket);
    let mut ask_as = |user: &str| {
        let output = stranger.env("MLPROF_TEST_USER", user).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let refused = ask_as("65534");
    assert!(refused.contains("this process belongs to another user"), "{refused}");
    assert!(!refused.contains("trainings"), "{refused}");
    let answered = ask_as("0");
    assert!(answered.contains("trainings"), "{answered}");
    assert_eq!(program.state().trainings.len(), 1);
}

/// Sends a request to a process as another user.
pub fn play_stranger() {
    let value = |name: &str| std::env::var(name).expect("it is set");
    let user: u32 = value("MLPROF_TEST_USER").parse().expect("a number");
    // SAFETY: `setuid` takes an integer, and this process has only one thread.
    assert_eq!(unsafe { libc::setuid(user) }, 0);
    let mut stream = UnixStream::connect(value("MLPROF_TEST_TO")).expect("it may connect");
    // The process may close the connection before the request is sent.
    let _ = stream.write_all(b"{\"version\": 1, \"request\": \"state\"}\n");
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_line(&mut answer);
    print!("{answer}");
}

pub fn a_signal_ends_it_as_ever() {
    let mut program = Program::start("none");
    let mut connection = program.connect();
    connection.ask(Request::Record(steps(100)));
    program.wait_until(|state| state.is_recording);
    program.steps(3);
    // The answer is read before the signal, so that it cannot be lost when the process ends.
    assert!(matches!(connection.answer(), Some(mlprof_events::live::Answer::Recording)));
    let number = libc::pid_t::try_from(program.child.id()).expect("a number");
    // SAFETY: `kill` takes two integers and no pointers. The child has not been reaped, so its
    // process id is not reused.
    unsafe { libc::kill(number, libc::SIGINT) };
    assert_eq!(connection.answer(), None, "the connection ends with the process");
    let socket = program.socket();
    let (status, _, errors) = program.end();
    assert_eq!((status.signal(), errors.as_str()), (Some(libc::SIGINT), ""));
    assert!(UnixStream::connect(socket).is_err(), "nobody listens there any more");
}

pub fn a_forked_child_has_a_socket_of_its_own() {
    let program = Program::start("fork");
    let file = program.folder.path().join("child");
    wait_until(|| std::fs::read_to_string(&file).is_ok_and(|text| !text.is_empty()));
    let child: u32 = std::fs::read_to_string(&file).expect("text").parse().expect("a number");
    let identity = ProcessIdentity::of(child);
    let socket = socket_of(&program.folder.path().join("mlprof"), &identity);
    let state = Connection::to(UnixStream::connect(&socket).expect("it listens")).state();
    assert_eq!(state.process, child);
    let training = &state.trainings[0];
    assert_eq!((training.stage, training.steps), (Some(Stage::Predict), 1));
    assert_eq!(program.state().process, program.child.id(), "and so does its parent");
    std::fs::remove_file(&file).expect("removed");
    wait_until(|| !socket.exists());
    assert!(program.socket().exists(), "a child removes its own only");
    assert!(program.end().0.success());
}

/// Without their features, the endpoints of both ports are reported as missing.
#[cfg(not(all(feature = "capture", feature = "metrics")))]
pub fn ports_without_their_doors_are_said() {
    let doors = [
        (cfg!(feature = "capture"), "MLPROF_CAPTURE_PORT", "capture"),
        (cfg!(feature = "metrics"), "MLPROF_METRICS_PORT", "metrics"),
    ];
    for (_, variable, feature) in doors.iter().filter(|(is_there, ..)| !is_there) {
        let more = std::collections::HashMap::from([(*variable, "6009".into())]);
        let (status, _, errors) = Program::start_in("none", "", &more).end();
        assert!(status.success());
        let expected = format!(
            ", although {variable} is set: the program lacks support; turn on the feature `{feature}` of its \
             mlprof plugin\n"
        );
        assert!(errors.ends_with(&expected), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

/// Without its feature, the push is reported as missing.
#[cfg(not(feature = "otlp"))]
pub fn a_push_without_its_feature_is_said() {
    let more = |name, value: &str| std::collections::HashMap::from([(name, value.into())]);
    let here = more("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
    let (status, _, errors) = Program::start_in("none", "", &here).end();
    assert!(status.success());
    let expected = "mlprof: cannot push metrics to http://localhost:4318/v1/metrics, although \
                    OTEL_EXPORTER_OTLP_ENDPOINT is set: the program lacks support; turn on the feature `otlp` \
                    of its mlprof plugin, or set OTEL_METRICS_EXPORTER=none to silence this message\n";
    assert_eq!(errors, expected);
    let mut unwanted = here;
    unwanted.extend(more("OTEL_METRICS_EXPORTER", "none"));
    assert_eq!(Program::start_in("none", "", &unwanted).end().2, "");
}
