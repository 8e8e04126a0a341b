//! Tests containers that share the socket folder. In each container, the training is process 1.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use mlprof_events::live::{ProcessIdentity, connect, listening, peer};

use crate::asking::{Connection, PATIENCE, wait_until};
use crate::program::SCENE;

const UNSHARE: [&str; 3] = ["--pid", "--fork", "--mount-proc"];

/// Training that is the first process of a PID namespace.
struct Container {
    child: Child,
    _output: BufReader<ChildStdout>,
}

impl Container {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new("unshare")
            .args(UNSHARE)
            .arg(std::env::current_exe().expect("this program"))
            .envs(HashMap::from([(SCENE, "none"), ("MLPROF_LIVE", "1")]))
            .env("XDG_RUNTIME_DIR", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        Self { child, _output: output }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Returns the reason why the namespaces cannot be created here, if they cannot.
pub fn why_not(namespaces: &[&str]) -> Option<String> {
    match Command::new("unshare").args(namespaces).arg("true").output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

pub fn containers_leave_each_others_sockets() {
    if let Some(why) = why_not(&UNSHARE) {
        return println!("    skipped: unshare is not permitted: {why}");
    }
    let around = tempfile::tempdir().expect("a folder");
    let folder = around.path().join("mlprof");
    let state_of = |identity: &ProcessIdentity| {
        let stream = connect(&folder, identity, Instant::now() + PATIENCE).expect("it listens");
        // Outside the container, the process has another id.
        assert!(peer(&stream).expect("said").process.is_some_and(|number| number > 1));
        Connection::to(stream).state()
    };
    let first = Container::start(around.path());
    let [of_first] = listening(&folder).expect("a list")[..] else { panic!("one") };
    let second = Container::start(around.path());
    let both = listening(&folder).expect("a list");
    assert_eq!(both.iter().map(|it| it.process).collect::<Vec<_>>(), [1, 1], "{both:?}");
    assert_ne!(both[0].namespace, both[1].namespace);
    for identity in &both {
        let state = state_of(identity);
        assert_eq!((state.process, state.namespace), (1, identity.namespace));
        assert_eq!(state.parent, None, "its number is not one of the container's");
    }
    second.end();
    assert_eq!(listening(&folder).expect("a list"), [of_first]);
    assert_eq!(state_of(&of_first).trainings.len(), 1, "the first still trains");
    // A killed process leaves its socket, and a third process does not remove it.
    let mut first = first;
    let number = {
        let stream = connect(&folder, &of_first, Instant::now() + PATIENCE).expect("it listens");
        peer(&stream).expect("said").process.expect("it is seen from here")
    };
    // SAFETY: `kill` takes two integers and no pointers. The id belongs to the first process of
    // this test's namespace. That process still answers, so the id is not reused.
    unsafe { libc::kill(libc::pid_t::try_from(number).expect("a number"), libc::SIGKILL) };
    first.child.wait().expect("it has ended");
    let third = Container::start(around.path());
    wait_until(|| listening(&folder).expect("a list").len() == 2);
    third.end();
    assert_eq!(listening(&folder).expect("a list"), [of_first]);
}
