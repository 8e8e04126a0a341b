//! Tests the socket's location: the first usable folder, also after the socket was removed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use mlprof_events::live::{ProcessIdentity, connect, own_user, socket_of};

use crate::asking::{Connection, PATIENCE, Program, wait_until};
use crate::program::SCENE;

/// Returns `true` if the process answers in this folder.
fn answers_in(folder: &Path, identity: &ProcessIdentity) -> bool {
    let stream = connect(folder, identity, Instant::now() + PATIENCE);
    stream.is_ok_and(|stream| Connection::to(stream).is_heard())
}

/// Returns the candidate folders below `around`, and the system's own runtime folder, which may
/// exist on this machine.
fn folders(around: &Path) -> [PathBuf; 3] {
    let user = own_user();
    [
        around.join("run/mlprof"),
        format!("/run/user/{user}/mlprof").into(),
        around.join(format!("tmp/mlprof-{user}")),
    ]
}

fn environment(around: &Path) -> HashMap<&'static str, PathBuf> {
    std::fs::create_dir(around.join("tmp")).expect("made");
    HashMap::from([("XDG_RUNTIME_DIR", around.join("run")), ("TMPDIR", around.join("tmp"))])
}

/// A batch job may inherit the login node's variable without its folder.
pub fn the_next_folder_is_taken() {
    let around = tempfile::tempdir().expect("a folder");
    let program = Program::start_in("none", "1", &environment(around.path()));
    let [missing, ..] = folders(around.path());
    assert!(!missing.exists());
    let found =
        folders(around.path()).iter().filter(|it| answers_in(it, &program.identity)).count();
    assert_eq!(found, 1);
    let (identity, (status, _, errors)) = (program.identity, program.end());
    assert!(status.success() && errors.is_empty(), "{errors}");
    let left = folders(around.path()).map(|it| socket_of(&it, &identity).exists());
    assert_eq!(left, [false; 3], "it is removed where it was");
}

/// At the user's last logout, the system removes the socket with its folder, and then the parent
/// folder.
pub fn a_socket_that_was_removed_is_made_again() {
    let around = tempfile::tempdir().expect("a folder");
    let environment = environment(around.path());
    std::fs::create_dir(around.path().join("run")).expect("made");
    let mut program = Program::start_in("none", "1", &environment);
    let [first, second, third] = folders(around.path());
    let answers = |folder: &Path| answers_in(folder, &program.identity);
    assert!(answers(&first));
    std::fs::remove_dir_all(&first).expect("removed");
    wait_until(|| answers(&first));
    std::fs::remove_dir_all(around.path().join("run")).expect("removed");
    wait_until(|| answers(&second) || answers(&third));
    program.steps(1);
    let (status, _, errors) = program.end();
    assert!(status.success() && errors.is_empty(), "{errors}");
}

/// The path of the folder exceeds the maximum length of a socket address.
pub fn a_folder_may_have_a_long_path() {
    let around = tempfile::tempdir().expect("a folder");
    let long = around.path().join("a-folder-of-a-job-".repeat(8));
    std::fs::create_dir(&long).expect("made");
    let program =
        Program::start_in("none", "1", &HashMap::from([("XDG_RUNTIME_DIR", long.clone())]));
    assert!(answers_in(&long.join("mlprof"), &program.identity));
    let socket = socket_of(&long.join("mlprof"), &program.identity);
    let (status, _, errors) = program.end();
    assert!(status.success() && errors.is_empty() && !socket.exists(), "{errors}");
}

/// Other programs also use the shared folders of all users. The program therefore gets its own
/// empty ones in a mount namespace.
pub fn it_is_said_why_no_folder_can_be_used() {
    let namespaces = ["--mount", "--propagation", "private"];
    if let Some(why) = crate::containers::why_not(&namespaces) {
        return println!("    skipped: unshare is not permitted: {why}");
    }
    // A file with the name of the last folder prevents its creation.
    let script = format!(
        "exec 9<\"$0\"; for folder in /run/user /tmp; do ! [ -d $folder ] || mount -t tmpfs none $folder; done && \
         : >/tmp/mlprof-{} && exec /proc/self/fd/9",
        own_user()
    );
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", &script]).arg(program);
    let more =
        HashMap::from([("XDG_RUNTIME_DIR", "/nowhere".into()), ("TMPDIR", "/nowhere".into())]);
    let said = Program::start_by(command, "none", "1", &more).end().2;
    for part in [
        "mlprof: live inspection is off: cannot find a folder for sockets: ",
        "/nowhere/mlprof: No such file or directory",
        "it is not a folder",
        "set XDG_RUNTIME_DIR to a folder that only you can access",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// If standard error is closed, a socket could get its descriptor number and receive the program's
/// output.
pub fn the_socket_does_not_take_the_place_of_a_closed_stream() {
    let around = tempfile::tempdir().expect("a folder");
    let mut child = Command::new("sh")
        .args(["-c", "exec \"$0\" 2>&-"])
        .arg(std::env::current_exe().expect("this program"))
        .env(SCENE, "none")
        .env("MLPROF_LIVE", "1")
        .env("XDG_RUNTIME_DIR", around.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n");
    let identity = ProcessIdentity::of(child.id());
    let leads = std::fs::read_link(format!("/proc/{}/fd/2", child.id())).expect("it is open");
    let answers = answers_in(&around.path().join("mlprof"), &identity);
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    assert_eq!((leads, answers), ("/dev/null".into(), true));
}

/// The connections of the program stay open, and clients can still send requests to it.
pub fn a_program_that_closes_all_files_keeps_its_own() {
    let mut program = Program::start("none");
    let own = program.folder.path().join("own");
    program.tell(&format!("close {}", own.display()));
    program.await_done();
    for _ in 0..20 {
        let mut stream = UnixStream::connect(&own).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("text");
        assert_eq!(said, "own\n");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let folder = program.folder.path().join("mlprof");
    wait_until(|| answers_in(&folder, &program.identity));
    program.steps(2);
    assert_eq!(program.state().trainings[0].steps, 2);
    assert!(program.end().0.success());
}
