//! Tests of folders that several processes share. No process may lose a file because of another, or
//! find an incomplete one.

#![cfg(unix)]

mod own_numbers;

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use mlprof_core::Output;
use mlprof_core::output::write_file;

use self::own_numbers::wrapped;

/// Environment variable with the scene that a child process plays.
const SCENE: &str = "MLPROF_TEST_SCENE";
const FOLDER: &str = "MLPROF_TEST_FOLDER";
/// Name of the test that plays a scene in the child process.
const PLAYER: &str = "scene_of_another_process";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns a command that runs this program with a scene. `around` is a command that wraps it.
fn player(scene: &str, folder: &Path, around: &[&str]) -> Command {
    let own = std::env::current_exe().expect("this program");
    let mut command = wrapped(around, &own);
    command.args([PLAYER, "--exact", "--nocapture"]).env(SCENE, scene).env(FOLDER, folder);
    command
}

#[test]
fn scene_of_another_process() {
    let Ok(scene) = std::env::var(SCENE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    match scene.split_once(' ').unwrap_or((&scene, "")) {
        ("files", who) => {
            for number in 0..FILES {
                let path = folder.join(format!("{who}-{number}"));
                write_file(&path, |file| pieces(who).try_for_each(|piece| file.write_all(&piece)))
                    .expect("written");
            }
        }
        ("wait", who) => {
            let path = folder.join(who);
            let _ = write_file(&path, |file| {
                file.write_all(b"half of it")?;
                println!("at work");
                std::thread::sleep(Duration::from_secs(600));
                Ok(())
            });
        }
        ("large", _) => {
            let large = vec![0; 1 << 20];
            let error = write_file(&folder.join("large"), |file| file.write_all(&large));
            println!("said: {}", error.expect_err("too large"));
            let output = Output::new().dirpath(&folder).filename("run");
            // The report's own file is also too large. The error is printed, and the report goes to
            // the console.
            mlprof_core::output::deliver(Some(&output), &"report\n".repeat(1 << 16));
            write_file(&folder.join("small"), |file| file.write_all(b"small")).expect("written");
        }
        other => panic!("no scene {other:?}"),
    }
    println!("played to the end");
}

const FILES: usize = 40;

/// Returns the pieces of one file. They take long enough to overlap with the writes of other
/// processes.
fn pieces(who: &str) -> impl Iterator<Item = Vec<u8>> {
    (0..50).map(move |_| who.as_bytes().repeat(200))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort_unstable();
    names
}

/// Covers processes with the same id in different containers: each is process 1 of its own.
#[cfg(target_os = "linux")]
#[test]
fn processes_of_one_number_keep_their_files() {
    let Some(around) = own_numbers::way() else { return };
    let folder = folder();
    for _round in 0..3 {
        let start = |who: &str| {
            let mut player = player(&format!("files {who}"), folder.path(), around);
            player.stdout(Stdio::null()).spawn().expect("started")
        };
        let both = ["one", "other"].map(start);
        for mut child in both {
            assert!(child.wait().expect("ended").success());
        }
        for who in ["one", "other"] {
            let whole = pieces(who).collect::<Vec<_>>().concat();
            for number in 0..FILES {
                let name = format!("{who}-{number}");
                let read = fs::read(folder.path().join(&name)).expect("it is there");
                assert!(read == whole, "{name} holds something else");
            }
        }
        assert_eq!(names(folder.path()).len(), 2 * FILES, "{:?}", names(folder.path()));
    }
}

/// Checks that planted links are neither followed nor used for new files.
#[test]
fn links_under_guessed_names_are_not_followed() {
    let folder = folder();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    for number in 0..200 {
        let guess = format!(".profiler-{}-{number}.tmp", std::process::id());
        symlink(&victim, folder.path().join(guess)).expect("linked");
    }
    write_file(&folder.path().join("file"), |file| file.write_all(b"content")).expect("written");
    assert_eq!(fs::read(&victim).expect("there"), b"precious");
    assert_eq!(fs::read(folder.path().join("file")).expect("there"), b"content");
}

/// Starts a process that is working in the folder.
fn at_work(who: &str, folder: &Path) -> Child {
    let mut child = player(&format!("wait {who}"), folder, &[])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let said =
        output.lines().map(|line| line.expect("text")).find(|line| line.ends_with("at work"));
    assert!(said.is_some());
    child
}

#[cfg(target_os = "linux")]
#[test]
fn leftovers_of_killed_processes_are_removed_and_other_files_stay() {
    let folder = folder();
    let mut killed = [at_work("a", folder.path()), at_work("b", folder.path())];
    for child in &mut killed {
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
    let mut alive = at_work("c", folder.path());
    assert_eq!(names(folder.path()).len(), 3, "temporary files");
    // The files' times are set as if two days had passed.
    let then = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    for name in names(folder.path()) {
        let file = File::options().write(true).open(folder.path().join(name)).expect("there");
        file.set_modified(then).expect("set back");
    }
    write_file(&folder.path().join("new"), |file| file.write_all(b"new")).expect("written");
    let there = names(folder.path());
    alive.kill().expect("killed");
    alive.wait().expect("ended");
    assert_eq!(there.len(), 2, "what is being made, and what was made: {there:?}");
    assert!(there.contains(&"new".to_owned()), "{there:?}");
    assert!(there[0].starts_with(".mlprof-"), "{there:?}");
}

#[test]
fn a_replaced_file_keeps_its_permissions() {
    let folder = folder();
    let path = folder.path().join("file");
    for mode in [0o600, 0o640, 0o664, 0o755] {
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        write_file(&path, |file| file.write_all(b"new")).expect("written");
        let now = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!((fs::read(&path).expect("there"), now), (b"new".to_vec(), mode), "{mode:o}");
    }
    let fresh = folder.path().join("fresh");
    write_file(&fresh, |file| file.write_all(b"new")).expect("written");
    let usual = folder.path().join("usual");
    fs::write(&usual, "").expect("written");
    let mode = |path| fs::metadata(path).expect("there").permissions().mode();
    assert_eq!(mode(&fresh), mode(&usual), "as any new file");
}

/// Maximum wait of a test. The expected error comes earlier.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the result of `work`, which must not take longer than the limit.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(LIMIT).expect("it does not wait for ever")
}

fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    path
}

#[test]
fn a_pipe_that_nobody_reads_from_is_an_error_and_stays_a_pipe() {
    let folder = folder();
    let path = pipe(folder.path());
    let file = path.clone();
    let error = in_time(move || write_file(&file, |file| file.write_all(b"x")));
    assert!(error.expect_err("no reader").to_string().contains("this pipe has no reader"));
    assert!(fs::symlink_metadata(&path).expect("there").file_type().is_fifo());
    // The report's own file is tested in the same way.
    let (directory, report) = (folder.path().to_owned(), "fit-run.txt");
    fs::rename(&path, directory.join(report)).expect("renamed");
    in_time(move || {
        let output = Output::new().dirpath(directory).filename("run");
        output.setup(mlprof_core::Stage::Fit, &mlprof_core::RunContext::default());
        mlprof_core::output::deliver(Some(&output), "");
        mlprof_core::output::deliver(Some(&output), "report\n");
    });
    assert!(fs::symlink_metadata(folder.path().join(report)).expect("there").file_type().is_fifo());
}

#[test]
fn a_reader_that_stops_reading_is_an_error() {
    let folder = folder();
    let path = pipe(folder.path());
    // Opening both ends does not block, and the pipe is never read.
    let reader = File::options().read(true).write(true).open(&path).expect("open");
    let file = path.clone();
    let started = Instant::now();
    let error = in_time(move || write_file(&file, |file| file.write_all(&vec![0; 1 << 22])));
    let error = error.expect_err("nobody reads").to_string();
    assert!(error.contains("the pipe was not read for 5 s"), "{error}");
    assert!(started.elapsed() >= Duration::from_secs(5), "a slow reader has time");
    drop(reader);
    assert!(fs::symlink_metadata(&path).expect("there").file_type().is_fifo());
}

#[test]
fn a_pipe_with_a_reader_gets_all_of_it() {
    let folder = folder();
    let path = pipe(folder.path());
    let content: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || fs::read(path).expect("read"))
    };
    let (file, wanted) = (path.clone(), content.clone());
    in_time(move || {
        // The reader may not have opened the pipe yet.
        while let Err(error) = write_file(&file, |file| file.write_all(&content)) {
            assert!(error.to_string().contains("has no reader"), "{error}");
            std::thread::yield_now();
        }
    });
    assert!(reader.join().expect("no panic") == wanted);
}

#[cfg(target_os = "linux")]
#[test]
fn devices_stay_what_they_are() {
    let written = write_file(Path::new("/dev/full"), |file| file.write_all(b"x"));
    assert_eq!(written.expect_err("full").kind(), std::io::ErrorKind::StorageFull);
    write_file(Path::new("/dev/null"), |file| file.write_all(b"x")).expect("written");
    for device in ["/dev/full", "/dev/null"] {
        assert!(fs::metadata(device).expect("there").file_type().is_char_device());
    }
}

#[test]
fn a_limit_on_the_size_of_files_does_not_end_the_process() {
    let folder = folder();
    let shell = ["sh", "-c", "ulimit -f 64 && exec \"$0\" \"$@\""];
    let played = player("large", folder.path(), &shell).output().expect("started");
    let text = String::from_utf8_lossy(&played.stdout).into_owned();
    let errors = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{:?}: {text}{errors}", played.status);
    assert!(text.contains("said: the file would exceed the limit on the size of files"), "{text}");
    assert!(text.contains("played to the end"), "{text}");
    assert!(errors.contains("cannot write") && errors.contains("ulimit -f"), "{errors}");
    assert_eq!(names(folder.path()), ["run.txt", "small"], "nothing temporary is left");
}
