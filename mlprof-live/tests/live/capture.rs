//! Tests the endpoint of TensorBoard and XProf: the answers for clients of
//! `tensorflow.ProfilerService`, and the handling of invalid clients.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use mlprof_events::live::{Answer, Request as Asked};
use prost::Message;

use crate::asking::{PATIENCE, Program, steps, wait_until};
use crate::capture_client::{
    Client, ProfileOptions, ProfileRequest, Space, Text, framed, request, to,
};

pub const CHECKS: [(&str, fn()); 15] = [
    ("a_capture_is_a_trace_for_xprof", a_capture_is_a_trace_for_xprof),
    ("levels_say_whether_ops_are_captured", levels_say_whether_ops_are_captured),
    ("one_captures_at_a_time", one_captures_at_a_time),
    ("without_a_step_there_is_a_warning", without_a_step_there_is_a_warning),
    ("a_disconnected_capture_leaves_nothing", a_disconnected_capture_leaves_nothing),
    ("a_capture_outlives_the_training", a_capture_outlives_the_training),
    ("monitors_hear_of_steps", monitors_hear_of_steps),
    ("unknown_endpoints_return_a_reason", unknown_endpoints_return_a_reason),
    ("bytes_of_any_kind_do_no_harm", bytes_of_any_kind_do_no_harm),
    ("so_many_clients_are_heard", so_many_clients_are_heard),
    ("idle_connections_do_not_block_others", idle_connections_do_not_block_others),
    ("an_answer_that_is_not_taken_is_kept_once", an_answer_that_is_not_taken_is_kept_once),
    ("the_user_cancels_a_capture_and_comes_first", the_user_cancels_a_capture_and_comes_first),
    ("a_port_that_cannot_be_had_is_said", a_port_that_cannot_be_had_is_said),
    ("a_forked_child_does_not_keep_the_port", a_forked_child_does_not_keep_the_port),
];

fn start(scene: &str, live: &str, port: &str) -> (Program, u16) {
    let mut program =
        Program::start_in(scene, live, &HashMap::from([("MLPROF_CAPTURE_PORT", port.into())]));
    let said = said(&mut program);
    let port =
        said.strip_prefix("mlprof: TensorBoard and XProf can capture this process at 127.0.0.1:");
    let port = port.unwrap_or_else(|| panic!("{said}")).parse().expect("a port");
    (program, port)
}

/// Returns the next line on standard error. The following text remains unread.
fn said(program: &mut Program) -> String {
    let errors = program.child.stderr.as_mut().expect("piped");
    let (mut line, mut byte) = (Vec::new(), [0]);
    while errors.read(&mut byte).expect("text") == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("text")
}

const NO_WHOLE_STEP: [&str; 2] =
    ["no step began in the requested time", "it took longer than the requested time"];

/// Captures steps. On a busy machine, such a short time may contain no complete step, which
/// produces a warning. The capture is then repeated.
fn captured(program: &mut Program, port: u16, request: &ProfileRequest) -> Space {
    for _ in 0..20 {
        let answer = capturing(port, request.clone());
        let space = train(program, &answer);
        let said = [&space.errors[..], &space.warnings[..]].concat().join("; ");
        if !NO_WHOLE_STEP.iter().any(|note| said.contains(note)) {
            return space;
        }
    }
    panic!("no whole step in 20 captures")
}

/// Captures in another thread while the test continues.
fn capturing(port: u16, request: ProfileRequest) -> Receiver<Space> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(Client::of(port).capture(&request)));
    receiver
}

/// Trains until the capture is answered.
fn train(program: &mut Program, answer: &Receiver<Space>) -> Space {
    loop {
        program.steps(1);
        if let Ok(space) = answer.recv_timeout(Duration::from_millis(2)) {
            return space;
        }
    }
}

fn a_capture_is_a_trace_for_xprof() {
    let (mut program, port) = start("none", "", "0");
    let wishes = ProfileRequest { emit_xspace: true, ..request(200) };
    let space = captured(&mut program, port, &wishes);
    assert_eq!((&space.errors[..], &space.warnings[..]), (&[][..], &[][..]));
    let steps = space.count("ProfilerStep");
    assert!(steps > 0, "{space:?}");
    assert_eq!(space.count("training_step"), steps, "whole steps only");
    assert_eq!(space.count("aten.mm"), 2 * steps, "{space:?}");
    // The second request receives the trace only as a file, and not inside the message.
    let space = captured(&mut program, port, &request(1));
    assert_eq!(space.count("ProfilerStep"), 1, "{space:?}");
    assert!(!program.folder.path().join("mlprof").exists(), "nobody asked for the other door");
    let (status, text, errors) = program.end();
    assert!(status.success() && text.contains("wanted last: Interest()"), "{text}");
    assert_eq!(errors, "", "it was said once where the port is");
}

fn levels_say_whether_ops_are_captured() {
    let (mut program, port) = start("none", "", "0");
    for (level, has_ops) in [(1, false), (2, true)] {
        let opts = Some(ProfileOptions {
            host_tracer_level: level,
            version: 1,
            ..ProfileOptions::default()
        });
        let space = captured(&mut program, port, &ProfileRequest { opts, ..request(50) });
        assert_eq!(space.count("aten.mm") > 0, has_ops, "level {level}: {space:?}");
        assert!(space.count("training_step") > 0, "{space:?}");
    }
    assert!(program.end().0.success());
}

fn one_captures_at_a_time() {
    let (mut program, port) = start("none", "1", "0");
    let answer = capturing(port, request(600_000));
    program.wait_until(|state| state.is_recording);
    program.steps(4);
    let client = Client::of(port);
    let other = client.capture(&request(10));
    let [error] = &other.errors[..] else { panic!("{other:?}") };
    let process = program.child.id();
    let remedy = format!(
        "is still active; try again later, or cancel it with `mlprof record {process} --cancel`"
    );
    assert!(error.ends_with(&remedy), "{error}");
    let mut local = program.connect();
    local.ask(Asked::Record(steps(1)));
    let error = local.error();
    let holder = "cannot record: a recording requested by TensorBoard or XProf ";
    assert!(error.starts_with(holder) && error.contains("is still active"), "{error}");
    let terminate = |session: &str| client.ask("Terminate", &Text { text: session.to_owned() });
    let (code, message) = terminate("another").expect_err("there is none");
    assert_eq!((code, message.as_str()), (5, "session \"another\" has no active capture"));
    assert_eq!(terminate(&request(1).session_id), Ok(Vec::new()));
    let space = answer.recv_timeout(PATIENCE).expect("it ended");
    assert_eq!(space.warnings, ["the capture was terminated"]);
    assert!(space.errors.is_empty() && space.count("ProfilerStep") > 0, "{space:?}");
    // The opposite order: a capture during a local recording.
    local.ask(Asked::Record(steps(100)));
    program.wait_until(|state| state.is_recording);
    let other = client.capture(&request(10));
    assert!(other.errors[0].contains("is still active"), "{other:?}");
    assert!(program.end().0.success());
}

fn without_a_step_there_is_a_warning() {
    let (program, port) = start("none", "", "0");
    let client = Client::of(port);
    let space = client.capture(&request(20));
    let all = [&space.errors[..], &space.warnings[..]].concat().join("; ");
    assert!(all.contains("no step began in the requested time"), "{space:?}");
    for milliseconds in [0, 600_001] {
        let space = client.capture(&request(milliseconds));
        let start = format!("mlprof: cannot record {milliseconds} ms: ");
        assert!(space.errors[0].starts_with(&start), "{space:?}");
    }
    assert!(program.end().0.success());
}

fn a_disconnected_capture_leaves_nothing() {
    let (mut program, port) = start("none", "1", "0");
    let client = Client::of(port);
    for takes_back in [true, false] {
        let client = if takes_back { &client } else { &Client::of(port) };
        let request = to("http://localhost/tensorflow.ProfilerService/Profile").body(());
        let mut send = client.send.clone();
        client.runtime.block_on(async {
            let request = request.expect("a request");
            let (response, mut stream) = send.send_request(request, false).expect("sent");
            stream.send_data(framed(&self::request(600_000)), true).expect("sent");
            let waiting = tokio::task::spawn(response);
            while !program.state().is_recording {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            waiting.abort();
            stream.send_reset(h2::Reason::CANCEL);
            while takes_back && program.state().is_recording {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        program.steps(2);
    }
    drop(client);
    program.wait_until(|state| !state.is_recording);
    let space = Client::of(port).capture(&request(1));
    assert!(space.errors.is_empty() || space.errors[0].contains("no trace"), "{space:?}");
    program.steps(1);
    let (status, text, _) = program.end();
    assert!(status.success() && text.contains("wanted last: Interest()"), "{text}");
}

fn a_capture_outlives_the_training() {
    let (mut program, port) = start("none", "1", "0");
    let answer = capturing(port, request(600_000));
    program.wait_until(|state| state.is_recording);
    program.steps(5);
    assert!(program.end().0.success());
    let space = answer.recv_timeout(PATIENCE).expect("it is delivered");
    assert_eq!(space.warnings, ["the stage ended during the recording"]);
    assert_eq!(space.count("ProfilerStep"), 4, "the first one began before");
}

fn monitors_hear_of_steps() {
    let (mut program, port) = start("none", "", "0");
    let client = Client::of(port);
    let monitor = |milliseconds| {
        // The first field of the request is `duration_ms`.
        let bytes = client
            .ask("Monitor", &ProfileRequest { duration_ms: milliseconds, ..Default::default() });
        Text::decode(&bytes.expect("an answer")[..]).expect("text").text
    };
    let text = monitor(0);
    assert!(text.contains(&format!("Process: {}, ", program.child.id())), "{text}");
    assert!(
        text.ends_with("Stage: fit, 0 steps\nStep time (ms): no step ended in this interval\n"),
        "{text}"
    );
    let reader = std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            let answer = Client::of(port)
                .ask("Monitor", &ProfileRequest { duration_ms: 300, ..Default::default() });
            Text::decode(&answer.expect("an answer")[..]).expect("text").text
        });
        while !other.is_finished() {
            program.steps(3);
        }
        other.join().expect("an answer")
    });
    assert!(reader.contains("(avg), ") && reader.ends_with(" steps\n"), "{reader}");
    let (code, message) = client
        .ask("Monitor", &ProfileRequest { duration_ms: 600_001, ..Default::default() })
        .expect_err("too long");
    assert_eq!(
        (code, message.as_str()),
        (3, "cannot monitor for 600001 ms: the limit is 600000 ms")
    );
    assert!(program.end().0.success());
}

fn unknown_endpoints_return_a_reason() {
    let (mut program, port) = start("none", "", "0");
    let client = Client::of(port);
    for method in ["StartContinuousProfiling", "StopContinuousProfiling", "GetSnapshot"] {
        let (code, message) = client.ask(method, &request(1)).expect_err("there is none");
        assert_eq!(code, 12);
        assert!(message.starts_with("mlprof does not support continuous profiling"), "{message}");
    }
    let (code, message) = client.ask("Reboot", &request(1)).expect_err("there is none");
    assert_eq!((code, message.as_str()), (12, "unknown method \"Reboot\""));
    let path = "/tensorflow.ProfilerService/Profile";
    let send = |uri: &str, body: Bytes| {
        let answer = client.send(to(uri).body(()).expect("a request"), body).1;
        answer.expect_err("it is refused")
    };
    let (code, message) = send("http://localhost/grpc.health.v1.Health/Check", Bytes::new());
    assert_eq!((code, message.contains("mlprof supports only")), (12, true));
    let elsewhere = format!("http://evil.example:{port}{path}");
    let (code, message) = send(&elsewhere, framed(&request(1)));
    assert_eq!((code, message.contains("only requests to localhost")), (7, true));
    let here = format!("http://localhost{path}");
    assert_eq!(send(&here, Bytes::new()).0, 3);
    assert_eq!(send(&here, vec![1, 0, 0, 0, 0].into()).0, 12);
    assert_eq!(send(&here, vec![0, 0xff, 0xff, 0xff, 0xff, 1].into()).0, 3);
    assert_eq!(send(&here, vec![0; 60_000].into()).0, 3);
    let get = Request::builder().uri(here.as_str()).header("content-type", "application/grpc");
    assert_eq!(client.send(get.body(()).expect("a request"), Bytes::new()).0, 405);
    let plain = Request::builder().method(Method::POST).uri(here.as_str()).body(());
    assert_eq!(client.send(plain.expect("a request"), Bytes::new()).0, 415);
    program.steps(2);
    assert!(program.end().0.success());
}

/// Random bytes are sent alone, after the HTTP/2 preface, and after the head of a frame.
fn bytes_of_any_kind_do_no_harm() {
    let (mut program, port) = start("none", "1", "0");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..150 {
        let mut bytes = Vec::new();
        if round % 3 > 0 {
            bytes.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        }
        for _ in 0..random() % 8 {
            let length = random() % 400;
            if round % 3 == 2 {
                bytes.extend(&(length as u32).to_be_bytes()[1..]);
                bytes.extend([
                    (random() % 11) as u8,
                    random() as u8,
                    0,
                    0,
                    0,
                    (random() % 5) as u8,
                ]);
            }
            bytes.extend((0..length).map(|_| random() as u8));
        }
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        // The server may close the connection before all bytes are sent.
        let _ = stream.write_all(&bytes);
    }
    program.steps(3);
    let mut heard = None;
    wait_until(|| {
        // These connections may still occupy all slots.
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() && program.state().process > 0
    });
    while heard.is_none() {
        heard = std::panic::catch_unwind(|| Client::of(port).capture(&request(1))).ok();
    }
    assert_eq!(program.state().trainings[0].steps, 3);
    assert!(program.end().0.success());
}

fn so_many_clients_are_heard() {
    let (mut program, port) = start("none", "", "0");
    let client = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let heard: Vec<Client> = (0..16).map(|_| Client::of(port)).collect();
    // Connections without a request cannot replace a client that has received an answer.
    for client in &heard {
        client.ask("Monitor", &ProfileRequest::default()).expect("it is answered");
    }
    let many: Vec<TcpStream> = (0..500).map(|_| client()).collect();
    program.steps(2);
    let space = heard[15].capture(&request(1));
    assert!(space.planes.len() + space.errors.len() > 0, "{space:?}");
    drop((heard, many));
    let answers = || {
        let hears = || Client::of(port).ask("Monitor", &ProfileRequest::default()).is_ok();
        std::panic::catch_unwind(hears).unwrap_or(false)
    };
    wait_until(answers);
    assert!(program.end().0.success());
}

/// The connections take all slots, and some of them send valid requests.
fn idle_connections_do_not_block_others() {
    let (mut program, port) = start("none", "1", "0");
    let holders: Vec<Client> = (0..16).map(|_| Client::of(port)).collect();
    for holder in &holders[..8] {
        holder.ask("Monitor", &ProfileRequest::default()).expect("it is answered");
    }
    let capture = capturing(port, request(600_000));
    program.wait_until(|state| state.is_recording);
    // New connections do not replace the client that captures.
    let more: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens"))
        .collect();
    let client = Client::of(port);
    client.ask("Monitor", &ProfileRequest::default()).expect("it is heard all the same");
    program.steps(3);
    let terminate = Text { text: request(1).session_id };
    assert_eq!(client.ask("Terminate", &terminate), Ok(Vec::new()));
    let space = capture.recv_timeout(PATIENCE).expect("it goes on");
    assert_eq!(space.warnings, ["the capture was terminated"]);
    drop((holders, more));
    assert!(program.end().0.success());
}

/// Another capture cannot begin while a client has not received its answer, because the process
/// would keep both answers.
fn an_answer_that_is_not_taken_is_kept_once() {
    let (mut program, port) = start("none", "1", "0");
    // The client receives one byte and no more.
    let holder = Client::with_window(port, 1);
    let head = to("http://localhost/tensorflow.ProfilerService/Profile").body(());
    let mut send = holder.send.clone();
    let answered = holder.runtime.block_on(async {
        let (response, mut body) =
            send.send_request(head.expect("a request"), false).expect("sent");
        body.send_data(framed(&request(50)), true).expect("sent");
        let answered = tokio::spawn(response);
        while !answered.is_finished() {
            program.steps(1);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        answered.await.expect("no panic").expect("an answer")
    });
    assert!(!program.state().is_recording);
    let other = Client::of(port).capture(&request(10));
    assert!(other.errors[0].contains("requested by TensorBoard or XProf"), "{other:?}");
    drop((answered, send, holder));
    wait_until(|| {
        let space = Client::of(port).capture(&request(1));
        !space.errors.iter().any(|why| why.contains("requested"))
    });
    assert!(program.end().0.success());
}

/// A capture that waits for its start time would otherwise block other recordings until then.
fn the_user_cancels_a_capture_and_comes_first() {
    let (mut program, port) = start("none", "1", "0");
    let later = |minutes: u64| {
        let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
        let start = now.expect("later") + Duration::from_secs(60 * minutes);
        let start_timestamp_ns = start.as_nanos() as u64;
        let opts = ProfileOptions { start_timestamp_ns, ..ProfileOptions::default() };
        ProfileRequest { opts: Some(opts), ..request(50) }
    };
    let refused = Client::of(port).capture(&later(23 * 60));
    assert!(refused.errors[0].contains("more than ten minutes later"), "{refused:?}");
    let waits = capturing(port, later(9));
    program.wait_until(|state| state.is_recording);
    let mut user = program.connect();
    user.ask(Asked::Record(steps(1)));
    let error = user.error();
    assert!(
        error.contains("requested by TensorBoard or XProf") && error.contains("not started yet"),
        "{error}"
    );
    user.ask(Asked::Cancel);
    let told = user.answer();
    assert!(matches!(told, Some(Answer::Cancelled { recording: Some(_) })), "{told:?}");
    let space = waits.recv_timeout(PATIENCE).expect("it is over");
    assert!(space.errors[0].contains("the user cancelled the recording"), "{space:?}");
    let again = Client::of(port).capture(&request(10));
    assert!(
        again.errors[0].contains("the user has just cancelled a recording; try again in"),
        "{again:?}"
    );
    user.ask(Asked::Record(steps(1)));
    program.wait_until(|state| state.is_recording);
    program.steps(4);
    assert_eq!(user.recorded().0.steps, 1);
    assert!(program.end().0.success());
}

fn a_port_that_cannot_be_had_is_said() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("its own").port();
    for (port, why) in [
        (port.to_string(), format!("cannot listen on port {port} of 127.0.0.1: Address")),
        (
            "70000".to_owned(),
            "MLPROF_CAPTURE_PORT=70000: the value must be a port number".to_owned(),
        ),
    ] {
        let more = HashMap::from([("MLPROF_CAPTURE_PORT", port.into())]);
        let mut program = Program::start_in("none", "", &more);
        let said = said(&mut program);
        assert!(said.contains(&why) && said.contains("cannot capture this process"), "{said}");
        program.steps(1);
        assert!(program.end().0.success());
    }
}

fn a_forked_child_does_not_keep_the_port() {
    let (mut program, port) = start("fork", "", "0");
    let file = program.folder.path().join("child");
    wait_until(|| std::fs::read_to_string(&file).is_ok_and(|text| !text.is_empty()));
    let client = Client::of(port);
    let answer = client.ask("Monitor", &ProfileRequest::default()).expect("the parent answers");
    let text = Text::decode(&answer[..]).expect("text").text;
    assert!(text.contains(&format!("Process: {}, ", program.child.id())), "{text}");
    program.child.kill().expect("it runs");
    program.child.wait().expect("it ended");
    // The child is alive, but does not hold the port.
    assert!(file.exists());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "nobody listens there");
    std::fs::remove_file(&file).expect("removed");
}
