//! Tests the dynolog client of a process against a fake daemon.

use std::fs::File;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use mlprof_analysis::{Trace, kineto};
use mlprof_events::live::{Answer, Request};

use crate::asking::{Program, slices, steps, wait_until};
use crate::daemon::{Daemon, Setting, message};
use crate::program::SCENE;

fn trace(path: &Path) -> Trace {
    kineto::read(File::open(path).expect("a file")).expect("a trace")
}

/// Returns the path at which libkineto would write a trace with this extension.
fn file_of(setting: &Setting, program: &Program, ending: &str) -> std::path::PathBuf {
    setting.path(&format!("trace_{}{ending}", program.child.id()))
}

pub fn it_registers_and_asks_as_libkineto_does() {
    let setting = Setting::new();
    let daemon = setting.daemon();
    let program = setting.start("none");
    let context = daemon.receive();
    assert_eq!((context.kind(), context.size(), context.bytes.len()), (&b"ctxt"[..], 16, 56));
    let mut body = 0_i32.to_ne_bytes().to_vec();
    body.extend(program.child.id().to_ne_bytes());
    body.extend(77_i64.to_ne_bytes());
    assert_eq!(context.bytes, message("ctxt", &body));
    daemon.send(&message("ctxt", &1_i32.to_ne_bytes()), &context);
    let question = daemon.give_nothing();
    let count = question.number(1);
    assert_eq!((question.number(0), question.size()), (2, 16 + 4 * count as u64));
    let mut body = [2_i32, count].map(i32::to_ne_bytes).concat();
    body.extend(77_i64.to_ne_bytes());
    body.extend(program.child.id().to_ne_bytes());
    body.extend(std::process::id().to_ne_bytes());
    assert_eq!(&question.bytes[40..64], &body[..24], "first itself, then its parent");
    let name = question.from.as_pathname().expect("a file").to_owned();
    assert!(name.starts_with(setting.folder.path()) && name.exists());
    assert!(
        name.file_name().is_some_and(|it| it.to_string_lossy().starts_with("dynoconfigclient"))
    );
    // The next poll comes from the same address.
    assert_eq!(daemon.give_nothing().from.as_pathname(), Some(&*name));
    let (status, _, errors) = program.end();
    assert!(status.success());
    assert_eq!(errors, "", "it is no news that nothing is wanted");
    assert!(!name.exists(), "the socket is gone with the process");
}

pub fn steps_are_written_where_dyno_says() {
    let setting = Setting::new();
    let daemon = setting.daemon();
    let mut program = setting.start("none");
    program.steps(3);
    daemon.give(&format!(
        "\n    ACTIVITIES_LOG_FILE={}\nPROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=5\n\
         ACTIVITIES_ITERATIONS=2\nPROFILE_REPORT_INPUT_SHAPES=false\nPROFILE_NEWS=1\n    REQUEST_TRACE_ID=1",
        setting.path("trace.json").display()
    ));
    program.wait_until(|state| state.is_recording);
    let question = daemon.give_nothing();
    assert_eq!(
        question.number(0),
        0,
        "nothing else can be recorded now: the daemon keeps what it has"
    );
    program.steps(10);
    let path = file_of(&setting, &program, ".json");
    wait_until(|| path.exists());
    let trace = trace(&path);
    assert_eq!((slices(&trace, "training_step"), slices(&trace, "aten::mm")), (2, 4));
    for step in ["ProfilerStep#5", "ProfilerStep#6"] {
        assert_eq!(slices(&trace, step), 1, "{step}");
    }
    program.wait_until(|state| !state.is_recording);
    let (_, said, errors) = program.end();
    assert!(said.contains("ops were wanted: true\nwanted last: Interest()"), "{said}");
    let expected = format!("mlprof: 2 steps requested by dynolog are in {}\n", path.display());
    assert_eq!(errors, expected);
}

pub fn a_time_is_compressed_where_its_name_says_so() {
    let setting = Setting::new();
    let daemon = setting.daemon();
    let mut program = setting.start("simple");
    program.steps(1);
    daemon.give(&format!(
        "ACTIVITIES_LOG_FILE={}\nPROFILE_START_TIME=0\nACTIVITIES_DURATION_MSECS=300\nACTIVITY_TYPES=user_annotation\n",
        setting.path("trace.json.gz").display()
    ));
    program.wait_until(|state| state.is_recording);
    let path = file_of(&setting, &program, ".json.gz");
    while !path.exists() {
        program.steps(1);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut text = Vec::new();
    let file = File::open(&path).expect("a file");
    GzDecoder::new(file).read_to_end(&mut text).expect("whole, and compressed");
    let trace = kineto::read(&text[..]).expect("a trace");
    assert!(slices(&trace, "training_step") > 0);
    assert_eq!(slices(&trace, "aten::mm"), 0, "only annotations were wanted");
    let (_, _, errors) = program.end();
    assert!(errors.contains(&format!("are in {}\n", path.display())), "{errors}");
}

pub fn a_daemon_may_come_late_talk_nonsense_and_be_started_anew() {
    let setting = Setting::new();
    let mut program = setting.start("none");
    program.steps(1);
    std::thread::sleep(std::time::Duration::from_millis(2200));
    let daemon = setting.daemon();
    let question = daemon.question();
    for junk in [&b"junk"[..], b"", &[0xff; 300], &message("what", b"")] {
        daemon.send(junk, &question);
    }
    let mut huge = message("req", b"A");
    huge[..8].copy_from_slice(&(1_u64 << 60).to_ne_bytes());
    daemon.send(&huge, &question);
    daemon.send(&message("req", &vec![b'#'; 100_000]), &question);
    daemon.send(&message("req", b"ACTIVITIES_ITERATIONS=some\n"), &question);
    daemon.send(&message("req", b"\xff\xfe=\xff"), &question);
    daemon.give_nothing();
    drop(daemon);
    std::thread::sleep(std::time::Duration::from_millis(2200));
    let daemon = setting.daemon();
    assert_eq!(daemon.receive().kind(), b"ctxt", "a new one is told of the process first");
    daemon.give(&format!(
        "ACTIVITIES_LOG_FILE={}\nACTIVITIES_ITERATIONS=1\nPROFILE_START_ITERATION=0\n",
        setting.path("trace.json").display()
    ));
    program.wait_until(|state| state.is_recording);
    program.steps(4);
    let path = file_of(&setting, &program, ".json");
    wait_until(|| path.exists());
    assert_eq!(slices(&trace(&path), "training_step"), 1);
    // The message about the recording is printed just after the file is written.
    program.wait_until(|state| !state.is_recording);
    let (status, _, errors) = program.end();
    assert!(status.success());
    for (part, times) in [
        ("mlprof cannot reach dynolog's daemon (", 1),
        ("it retries every 1 s\n", 1),
        ("ignoring a message from dynolog's daemon: ", 1),
        ("cannot record for dynolog: ACTIVITIES_ITERATIONS=some: the value is not a number", 1),
        ("cannot record for dynolog: the request has no known key\n", 1),
    ] {
        assert_eq!(errors.matches(part).count(), times, "{part} in {errors}");
    }
}

pub fn a_recording_is_written_at_process_exit() {
    let setting = Setting::new();
    let daemon = setting.daemon();
    let mut program = setting.start("none");
    program.steps(1);
    let config = format!(
        "ACTIVITIES_LOG_FILE={}\nACTIVITIES_ITERATIONS=100\nPROFILE_START_ITERATION=0\n",
        setting.path("trace.json").display()
    );
    daemon.give(&config);
    program.wait_until(|state| state.is_recording);
    program.steps(5);
    let path = file_of(&setting, &program, ".json");
    assert!(!path.exists(), "it is whole or not there");
    let (status, _, errors) = program.end();
    assert!(status.success());
    assert_eq!(slices(&trace(&path), "training_step"), 3);
    assert!(
        errors.contains(
            "the stage ended during the recording; the recording has only 3 of 100 steps\n"
        ),
        "{errors}"
    );
    // This order has not begun when the process ends.
    let mut program = setting.start("none");
    program.steps(1);
    daemon.give(&format!("{config}PROFILE_START_ITERATION=1000\n"));
    program.wait_until(|state| state.is_recording);
    let path = file_of(&setting, &program, ".json");
    let (status, _, errors) = program.end();
    assert!(status.success() && !path.exists());
    let said = format!(
        "cannot write {} for dynolog: the process ended during the recording\n",
        path.display()
    );
    assert!(errors.contains(&said), "{errors}");
}

pub fn paths_elsewhere_are_not_written_to() {
    let setting = Setting::new();
    let daemon = setting.daemon();
    let mut program = setting.start("none");
    program.steps(1);
    let elsewhere = tempfile::tempdir().expect("a folder");
    daemon.give(&format!(
        "ACTIVITIES_LOG_FILE={}\nACTIVITIES_ITERATIONS=1\nPROFILE_START_ITERATION=0\n",
        elsewhere.path().join("trace.json").display()
    ));
    program.wait_until(|state| state.is_recording);
    program.steps(4);
    let number = program.child.id();
    let default = Path::new("/tmp").join(format!("libkineto_activities_{number}.json"));
    wait_until(|| default.exists());
    assert_eq!(slices(&trace(&default), "training_step"), 1);
    program.wait_until(|state| !state.is_recording);
    let (_, _, errors) = program.end();
    std::fs::remove_file(&default).expect("removed");
    assert!(errors.contains("KINETO_ONDEMAND_TRACE_DIR"), "{errors}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).expect("a folder").count(), 0);
}

pub fn a_forked_child_registers_anew() {
    let setting = Setting::new();
    let daemon = setting.daemon();
    let program = setting.start("fork");
    let file = program.folder.path().join("child");
    let mut registered = Vec::new();
    while registered.len() < 2 {
        let said = daemon.receive();
        match said.kind() {
            b"ctxt" => registered.push(said.number(1) as u32),
            _ => daemon.send(&message("req", b""), &said),
        }
    }
    wait_until(|| std::fs::read_to_string(&file).is_ok_and(|text| !text.is_empty()));
    let child: u32 = std::fs::read_to_string(&file).expect("text").parse().expect("a number");
    // The parent and the child may register in any order.
    registered.sort_unstable();
    let mut expected = [program.child.id(), child];
    expected.sort_unstable();
    assert_eq!(registered, expected);
    std::fs::remove_file(&file).expect("removed");
    assert!(program.end().0.success());
}

/// Compares libtorch's own client in the same process, which begins on request, with mlprof's
/// client. Both must send the same datagrams.
pub fn libtorchs_client_says_the_same() {
    if std::env::var_os("MLPROF_TEST_LIBTORCH").is_none() {
        println!("    no libtorch is named by MLPROF_TEST_LIBTORCH: its client is not looked at");
        return;
    }
    let setting = Setting::new();
    let daemon = setting.daemon();
    let mut program = setting.start("libtorch");
    program.await_done();
    let ours = daemon.give_nothing();
    for _ in 0..2 {
        let again = daemon.give_nothing();
        assert_eq!(again.from.as_pathname(), ours.from.as_pathname(), "there is one client");
        assert_eq!(again.bytes, ours.bytes);
    }
    program.tell("begin");
    let theirs = loop {
        let question = daemon.give_nothing();
        if question.from.as_pathname() != ours.from.as_pathname() {
            break question;
        }
    };
    // libtorch's client also requests a second kind of config.
    const EVENTS: i32 = 1;
    assert_eq!(theirs.number(0) & !EVENTS, ours.number(0));
    assert_eq!(theirs.bytes[..40], ours.bytes[..40]);
    assert_eq!(theirs.bytes[44..], ours.bytes[44..]);
    let name = |path: Option<&Path>| path.expect("a file").to_string_lossy().len();
    assert_eq!(name(theirs.from.as_pathname()), name(ours.from.as_pathname()));
}

/// Any user's process can take the daemon's abstract name.
pub fn another_users_daemon_is_not_obeyed() {
    let setting = Setting::new();
    let mut environment = setting.environment();
    environment.remove("KINETO_IPC_SOCKET_DIR");
    let daemon = Daemon::abstractly();
    let program = Program::start_in("none", "1", &environment);
    let question = daemon.give_nothing();
    let name = question.from.as_abstract_name().expect("an abstract name");
    assert!(name.starts_with(b"dynoconfigclient") && name.ends_with(b"\0"));
    // SAFETY: `geteuid` takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("    only root can be somebody else");
    }
    let config = format!("ACTIVITIES_LOG_FILE={}\n", setting.path("trace.json").display());
    let mut impostor = Command::new(std::env::current_exe().expect("this program"));
    impostor.env(SCENE, "impostor").env("MLPROF_LIVE", "0").env("MLPROF_TEST_SAYS", config);
    // The program may be in a folder that only root can read, so it changes its user only after it
    // has started.
    impostor.env("MLPROF_TEST_USER", "65534").stdout(Stdio::null());
    // Another user's process cannot fill the queue, because the kernel refuses its datagrams. The
    // name's last NUL byte is omitted, because an environment variable cannot contain it.
    let address = String::from_utf8_lossy(&name[..name.len() - 1]).into_owned();
    let stranger = impostor.env("MLPROF_TEST_TO", address).status().expect("it runs");
    assert_eq!(stranger.code(), Some(REFUSED), "the system refuses what it says");
    daemon.give_nothing();
    // A process of another user that takes the daemon's place is ignored.
    drop(daemon);
    let place = impostor.env_remove("MLPROF_TEST_TO").status().expect("it runs");
    assert!(place.success(), "it has been asked, and has answered");
    let daemon = Daemon::abstractly();
    // After two polls, all earlier datagrams have been processed.
    daemon.give_nothing();
    daemon.give_nothing();
    assert!(!program.state().is_recording);
    let (_, _, errors) = program.end();
    let ignored = "ignoring messages from another user's process in place of dynolog's daemon";
    assert_eq!(errors.matches(ignored).count(), 1, "{errors}");
}

/// Exit code of the impostor if the kernel refuses its datagram.
const REFUSED: i32 = 3;

/// Sends a datagram to a process as another user. The target is the given address, or else any
/// process that polls the daemon.
pub fn play_impostor() {
    let value = |name: &str| std::env::var(name).expect("it is set");
    let user: u32 = value("MLPROF_TEST_USER").parse().expect("a number");
    // SAFETY: `setuid` takes an integer, and this process has only one thread.
    assert_eq!(unsafe { libc::setuid(user) }, 0);
    let datagram = message("req", value("MLPROF_TEST_SAYS").as_bytes());
    let Ok(to) = std::env::var("MLPROF_TEST_TO") else {
        let daemon = Daemon::abstractly();
        let question = daemon.question();
        return daemon.send(&datagram, &question);
    };
    let to = std::os::unix::net::SocketAddr::from_abstract_name(format!("{to}\0"));
    let socket = UnixDatagram::unbound().expect("a socket");
    if let Err(error) = socket.send_to_addr(&datagram, &to.expect("an address")) {
        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        std::process::exit(REFUSED);
    }
}

/// The user can cancel an order that would never begin, so it does not block other recordings.
pub fn the_user_cancels_an_order() {
    let setting = Setting::new();
    let daemon = setting.daemon();
    let mut program = setting.start("none");
    program.steps(1);
    let order = |first: u64| {
        format!(
            "ACTIVITIES_LOG_FILE={}\nACTIVITIES_ITERATIONS=1\nPROFILE_START_ITERATION={first}\n",
            setting.path("trace.json").display()
        )
    };
    daemon.give(&order(2_000_000_000));
    program.wait_until(|state| state.is_recording);
    // Further orders from the daemon start no additional threads.
    let threads = |program: &Program| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", program.child.id()));
        tasks.expect("threads").count()
    };
    let before = threads(&program);
    let question = daemon.question();
    (0..20).for_each(|_| daemon.send(&message("req", order(0).as_bytes()), &question));
    daemon.give_nothing();
    assert!(threads(&program) <= before + 1, "{before} before");
    let mut user = program.connect();
    user.ask(Request::Record(steps(1)));
    assert!(user.error().contains("a recording requested by dynolog "));
    user.ask(Request::Cancel);
    assert!(matches!(user.answer(), Some(Answer::Cancelled { recording: Some(_) })));
    user.ask(Request::Record(steps(1)));
    program.wait_until(|state| state.is_recording);
    program.steps(4);
    assert_eq!(user.recorded().0.steps, 1);
    let path = file_of(&setting, &program, ".json");
    let (status, _, errors) = program.end();
    assert!(status.success() && !path.exists());
    assert!(errors.contains(": the user cancelled the recording\n"), "{errors}");
    let refused = "cannot record for dynolog: its previous recording is still active\n";
    assert_eq!(errors.matches(refused).count(), 20, "{errors}");
}
