//! Tests keys in a terminal, in which a shell runs `mlprof`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::{Arc, Mutex};

use super::interrupted::{eventually, state_of};
use super::shop::{MLPROF, TestProject};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// A pseudo-terminal with a shell.
struct Terminal {
    keys: File,
    screen: Arc<Mutex<String>>,
    shell: Child,
}

impl Terminal {
    fn open(project: &TestProject) -> Self {
        let (mut ours, mut theirs) = (0, 0);
        // SAFETY: both pointers refer to local integers that outlive the call. The other pointers
        // may be null.
        let opened = unsafe {
            let nothing = std::ptr::null_mut();
            libc::openpty(&raw mut ours, &raw mut theirs, nothing, nothing.cast(), nothing.cast())
        };
        assert_eq!(opened, 0, "a terminal");
        // SAFETY: `openpty` has just opened both descriptors, and no other value owns them.
        let (keys, inside) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        let own = || inside.try_clone().expect("a copy");
        let mut command = project.command("sh", &["-i"]);
        command.stdin(own()).stdout(own()).stderr(own()).env_remove("ENV").env("PS1", "> ");
        // SAFETY: the closure runs between `fork` and `exec`. It only calls `signal`, `setsid` and
        // `ioctl`, which are async-signal-safe, and takes no pointers to shared data. The shell
        // gets its own session with this terminal, and the default action for the keys' signals.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let shell = command.spawn().expect("a shell");
        let screen = Arc::<Mutex<String>>::default();
        let (mut output, shown) = (keys.try_clone().expect("a copy"), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A read error means that no process has the terminal open.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().expect("no panic").push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { keys, screen, shell }
    }

    fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    fn shown(&self) -> String {
        self.screen.lock().expect("no panic").clone()
    }

    fn shows(&self, text: &str) {
        eventually(&format!("{text:?} is shown"), || self.shown().contains(text));
    }

    /// Returns the states of the processes in the terminal, except the shell.
    fn states(&self) -> Vec<char> {
        let shell = self.shell.id().to_string();
        let processes = std::fs::read_dir("/proc").expect("processes").flatten();
        let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let others = names.filter(|name| name.parse::<u32>().is_ok() && *name != shell);
        others.filter_map(|process| state_of(&process, Some(&shell))).collect()
    }

    fn runs_nothing(&self) {
        eventually("everything has ended", || self.states().is_empty());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.type_in("exit\r");
        let _ = self.shell.wait();
    }
}

#[test]
fn keys_end_stop_and_continue_what_runs_and_the_report_comes_once() {
    let project = TestProject::copy_of("endings");
    let line = format!("{MLPROF} run --functions endings::leaf -- cargo run --quiet -- wait\r");
    for (keys, code) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131), (CTRL_Z, 130)] {
        let mut terminal = Terminal::open(&project);
        terminal.type_in(&line);
        terminal.shows("waiting");
        terminal.type_in(keys);
        if keys == CTRL_Z {
            let is_stopped = |states: &[char]| states.iter().all(|state| *state == 'T');
            eventually("all stop", || is_stopped(&terminal.states()));
            assert_eq!(terminal.states().len(), 2, "mlprof and the program");
            assert!(!terminal.shown().contains("Note: the process"), "{}", terminal.shown());
            terminal.type_in("fg\r");
            eventually("they go on", || terminal.states() == ['S', 'S']);
            terminal.type_in(CTRL_C);
        }
        terminal.runs_nothing();
        terminal.type_in("echo code=$?\r");
        terminal.shows(&format!("code={code}"));
        let shown = terminal.shown();
        assert_eq!(shown.matches("Note: the process was ended by SIG").count(), 1, "{shown}");
        assert_eq!(shown.matches("to print tables in another order").count(), 1, "{shown}");
        assert_eq!(project.calls().get("endings::leaf"), Some(&100), "{shown}");
        project.forget_results();
    }
}

/// A shell continues its script unless the program died of the key's signal.
#[test]
fn ctrl_c_ends_a_script_that_runs_it() {
    let project = TestProject::copy_of("endings");
    let script = format!(
        "{MLPROF} run --functions endings::leaf -- cargo run --quiet -- wait\necho went on\n"
    );
    std::fs::write(project.path("script.sh"), script).expect("written");
    let mut terminal = Terminal::open(&project);
    terminal.type_in("bash script.sh\r");
    terminal.shows("waiting");
    terminal.type_in(CTRL_C);
    terminal.runs_nothing();
    terminal.type_in("echo code=$?\r");
    terminal.shows("code=130");
    assert!(!terminal.shown().contains("went on"), "{}", terminal.shown());
    assert_eq!(project.calls().get("endings::leaf"), Some(&100), "{}", terminal.shown());
}
