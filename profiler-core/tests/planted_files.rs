//! Tests of folders in which other users have placed files under the names of reports. No setuid
//! bit may be kept, no foreign link followed, and no pipe waited for. Neither a file-size limit nor
//! a closed pipe may end the process.

#![cfg(target_os = "linux")]

#[path = "scene_runner/mod.rs"]
mod scene_runner;

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use mlprof_core::{
    AdvancedProfiler, NumericsProfiler, Output, ProfilerExt, RunContext, Session, SimpleProfiler,
    Stage, TensorProfiler, hook, profile,
};
use mlprof_events::{NumberReader, ObservedTensor, TensorNumbers, TensorRole};

/// Environment variable with the folder of the training that a child process runs.
const FOLDER: &str = "MLPROF_TEST_FOLDER";
/// Environment variable with the maximum file size in bytes.
const LIMIT_OF_FILES: &str = "MLPROF_TEST_LIMIT";
/// Environment variable that is set if standard output has no reader.
const CLOSED: &str = "MLPROF_TEST_CLOSED";
/// Environment variable that is set if the program itself prints after its reports.
const PRINTS: &str = "MLPROF_TEST_PRINTS";
/// Environment variable that is set if there is not enough memory to read debug information.
const SHORT_OF_MEMORY: &str = "MLPROF_TEST_SHORT_OF_MEMORY";
const LAST_LINE: &str = "the program's own last line";
/// Another user's id.
const NOBODY: u32 = 65534;
/// Maximum duration of a training. A longer one counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

struct Numbers(Vec<f32>);

impl TensorNumbers for Numbers {
    fn element_type(&self) -> &'static str {
        "f32"
    }

    fn shape(&self) -> Vec<u64> {
        vec![self.0.len() as u64]
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        reader.read_f32(&self.0);
        true
    }
}

/// Runs a few steps, with a tensor that is not finite in the third one.
fn steps(session: Session) {
    for step in 0..6 {
        {
            let _step = profile!("run_training_batch");
            let _load = profile!("load_data");
            let value = if step == 2 { f32::NAN } else { 0.5 };
            let tensor = Numbers(vec![value; 3000]);
            let input = Numbers(vec![1.0; 3000]);
            let (role, input) = (TensorRole::Output, Some(&input as &dyn TensorNumbers));
            let name = "[module]Linear: first";
            hook::tensor(&ObservedTensor { role, name, tensor: &tensor, input });
        }
        session.profiler().step();
    }
}

/// Runs a training with each profiler in turn, which writes all kinds of files.
#[test]
fn training_of_another_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    if std::env::var_os(CLOSED).is_some() {
        close_standard_output();
    }
    if let Some(bytes) = std::env::var(LIMIT_OF_FILES).ok().and_then(|bytes| bytes.parse().ok()) {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: `limit` is a local variable and valid during the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    }
    let run = RunContext::default();
    let begin = |session: Session| steps(session);
    if std::env::var_os(PRINTS).is_some() {
        begin(Session::begin(SimpleProfiler::new(), Stage::Fit, &run).expect("a profiler"));
        // A typical program prints like this. A write beyond the file-size limit would end it.
        println!("{LAST_LINE}");
        // SAFETY: `_exit` ends the process, and no cleanup is needed.
        unsafe { libc::_exit(0) };
    }
    if std::env::var_os(SHORT_OF_MEMORY).is_some() {
        limit_address_space();
        let numerics = NumericsProfiler::new().dirpath(&folder).filename("numerics");
        begin(Session::begin(numerics.every(1), Stage::Fit, &run).expect("a profiler"));
        // SAFETY: `_exit` ends the process, and no cleanup is needed.
        unsafe { libc::_exit(0) };
    }
    let output = |name: &str| Output::new().dirpath(&folder).filename(name);
    let simple = SimpleProfiler::new().output_to(output("simple").json(true).html(true));
    begin(Session::begin(simple, Stage::Fit, &run).expect("a profiler"));
    let advanced = AdvancedProfiler::new().dirpath(&folder).filename("advanced");
    begin(Session::begin(advanced.dump_stats(true), Stage::Fit, &run).expect("a profiler"));
    let tensor = TensorProfiler::new().dirpath(&folder).filename("tensor").flame(true);
    #[cfg(feature = "parquet")]
    let tensor = tensor.parquet(true);
    let tensor = tensor.memory_timeline(true).memory_snapshot(true);
    begin(Session::begin(tensor, Stage::Fit, &run).expect("a profiler"));
    let numerics = NumericsProfiler::new().dirpath(&folder).filename("numerics");
    begin(
        Session::begin(numerics.every(1).save_tensors(true), Stage::Fit, &run).expect("a profiler"),
    );
    // This report goes to the console.
    begin(Session::begin(SimpleProfiler::new(), Stage::Fit, &run).expect("a profiler"));
    // The test harness must not print, because the limit or the closed pipe would end the process.
    //
    // SAFETY: `_exit` ends the process, and no cleanup is needed.
    unsafe { libc::_exit(0) };
}

/// Limits the address space to 24 MiB beyond the current size, which is less than this program's
/// debug information.
fn limit_address_space() {
    let mapped = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = mapped.split(' ').next().and_then(|it| it.parse().ok()).expect("a number");
    // SAFETY: `sysconf` has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let limit = pages * page + (24 << 20);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: `limit` is a local variable and valid during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// Makes standard output a pipe without a reader. SIGPIPE has its default action, as in a program
/// that has requested it.
fn close_standard_output() {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors, which are open after a successful call.
    // Descriptor 1 is standard output and stays open.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        assert_eq!(libc::dup2(ends[1], 1), 1);
        libc::close(ends[0]);
        libc::close(ends[1]);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Output and exit status of a training.
struct TrainingOutput {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Runs a training in a process of its own, with these environment variables.
fn train(folder: &Path, variables: &[(&str, &str)]) -> TrainingOutput {
    let streams = folder_for_test();
    let open = |name: &str| File::create(streams.path().join(name)).expect("made");
    let own = std::env::current_exe().expect("this program");
    let mut child = Command::new(own)
        .args(["training_of_another_process", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .envs(variables.iter().copied())
        .stdout(open("stdout"))
        .stderr(open("stderr"))
        .spawn()
        .expect("started");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("asked") {
            break status;
        }
        if began.elapsed() > LIMIT {
            child.kill().expect("killed");
            child.wait().expect("ended");
            panic!("the training hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let text = |name: &str| fs::read_to_string(streams.path().join(name)).expect("text");
    TrainingOutput { status, stdout: text("stdout"), stderr: text("stderr") }
}

fn folder_for_test() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns all files below a folder, as relative paths.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let entry = entry.expect("an entry");
            match entry.file_type().expect("its type").is_dir() {
                true => folders.push(entry.path()),
                false => files.push(entry.path().strip_prefix(folder).expect("inside").to_owned()),
            }
        }
    }
    files.sort_unstable();
    files
}

/// Returns the names of all files that a training writes.
fn names() -> Vec<PathBuf> {
    let folder = folder_for_test();
    let trained = train(folder.path(), &[]);
    assert!(trained.status.success(), "{}", trained.stderr);
    let names = files(folder.path());
    for ending in [
        "fit-simple.txt",
        "fit-simple.json",
        "fit-simple.html",
        ".prof",
        ".trace.json",
        ".folded",
        "fit-numerics.numerics.jsonl",
        "fit-numerics.numerics.safetensors",
    ] {
        let has = names.iter().any(|name| name.to_string_lossy().contains(ending));
        assert!(has, "{ending}: {names:?}");
    }
    // Names of cycle files contain the time, so they cannot be known in advance.
    let has_time = |name: &PathBuf| {
        let name = name.to_string_lossy();
        name.split(|letter: char| !letter.is_ascii_digit()).any(|number| number.len() > 15)
    };
    names.into_iter().filter(|name| !has_time(name)).collect()
}

fn is_table(name: &Path) -> bool {
    name.extension().is_some_and(|extension| extension == "parquet")
}

/// Creates an entry under each of the names.
fn create_entries(folder: &Path, names: &[PathBuf], make: impl Fn(&Path)) {
    for name in names {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        make(&path);
    }
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no zero byte")
}

fn make_pipe(path: &Path) {
    // SAFETY: the argument is a C string that lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(c_string(path).as_ptr(), 0o666) }, 0, "{}", path.display());
}

/// Changes the owner to another user. Returns `false` if this process is not root and may not do
/// so.
fn give_away(path: &Path) -> bool {
    // SAFETY: the argument is a C string that lives until the call returns.
    unsafe { libc::lchown(c_string(path).as_ptr(), NOBODY, NOBODY) == 0 }
}

fn is_root() -> bool {
    // SAFETY: `geteuid` has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("left out: only root can make files of other users");
    }
    is_root
}

#[test]
fn no_planted_file_hands_on_more_than_a_users_own_permissions() {
    let names = names();
    for is_of_others in [true, false] {
        if is_of_others && !is_root() {
            continue;
        }
        let folder = folder_for_test();
        create_entries(folder.path(), &names, |path| {
            fs::write(path, "").expect("written");
            assert!(!is_of_others || give_away(path));
            fs::set_permissions(path, Permissions::from_mode(0o6777)).expect("set");
        });
        if is_of_others {
            fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("set");
            assert!(give_away(folder.path()));
        }
        let trained = train(folder.path(), &[]);
        assert!(trained.status.success(), "{}", trained.stderr);
        let mut replaced = 0;
        for name in &names {
            let there = fs::metadata(folder.path().join(name)).expect("there");
            // Reports are appended to text files, which therefore keep their owner and mode.
            if name.extension().is_some_and(|it| it == "txt") {
                continue;
            }
            let (mode, name) = (there.mode() & 0o7777, name.display());
            let keeps_mode = !is_of_others && !is_table(Path::new(&name.to_string()));
            let expected = if keeps_mode { 0o777 } else { mode & 0o755 };
            assert_eq!(mode, expected, "{name}: {mode:o}");
            assert!(there.len() > 0, "{name}");
            replaced += 1;
        }
        assert!(replaced > 3, "{replaced}");
        chown(folder.path(), Some(0), None).ok();
    }
}

#[test]
fn no_link_of_another_user_is_followed() {
    if !is_root() {
        return;
    }
    let names = names();
    let folder = folder_for_test();
    let victims = folder_for_test();
    create_entries(folder.path(), &names, |path| {
        let victim = victims.path().join(path.strip_prefix(folder.path()).expect("inside"));
        fs::create_dir_all(victim.parent().expect("a folder")).expect("made");
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, path).expect("linked");
        assert!(give_away(path));
    });
    let trained = train(folder.path(), &[]);
    assert!(trained.status.success(), "{}", trained.stderr);
    for name in &names {
        let read = fs::read(victims.path().join(name)).expect("there");
        assert_eq!(read, b"precious", "{}", name.display());
    }
    // The reports go to the console instead.
    let refused = "it is a symbolic link of user 65534; remove it, or choose a folder";
    assert!(trained.stderr.contains(refused), "{}", trained.stderr);
    assert!(trained.stdout.contains("load_data"), "{}", trained.stdout);
}

#[test]
fn a_hard_link_to_a_file_of_the_users_own_is_not_appended_to() {
    let folder = folder_for_test();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious\n").expect("written");
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).expect("made");
    fs::hard_link(&victim, shared.join("fit-simple.txt")).expect("linked");
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("set");
    let trained = train(&shared, &[]);
    assert!(trained.status.success(), "{}", trained.stderr);
    assert_eq!(fs::read(&victim).expect("there"), b"precious\n");
    assert!(trained.stderr.contains("it is a hard link"), "{}", trained.stderr);
}

#[test]
fn a_text_report_follows_a_link_of_the_users_own() {
    let folder = folder_for_test();
    let target = folder.path().join("latest.txt");
    fs::write(&target, "earlier\n").expect("written");
    symlink("latest.txt", folder.path().join("fit-simple.txt")).expect("linked");
    symlink(folder.path().join("new.txt"), folder.path().join("fit-advanced.txt")).expect("linked");
    let trained = train(folder.path(), &[]);
    assert!(trained.status.success(), "{}", trained.stderr);
    let text = fs::read_to_string(&target).expect("there");
    assert!(text.starts_with("earlier\n") && text.contains("load_data"), "{text}");
    assert!(fs::read_to_string(folder.path().join("new.txt")).expect("made").contains("load_data"));
}

#[test]
fn no_pipe_is_waited_for() {
    let names = names();
    for is_of_others in [false, true] {
        if is_of_others && !is_root() {
            continue;
        }
        let folder = folder_for_test();
        create_entries(folder.path(), &names, |path| {
            make_pipe(path);
            assert!(!is_of_others || give_away(path));
        });
        let trained = train(folder.path(), &[]);
        assert!(trained.status.success(), "{}", trained.stderr);
        assert!(trained.stderr.contains("cannot write"), "{}", trained.stderr);
        let is_pipe = |name: &PathBuf| {
            let there = fs::symlink_metadata(folder.path().join(name)).expect("there");
            there.file_type().is_fifo()
        };
        // Tables of an earlier run are removed before new ones are written.
        assert!(names.iter().filter(|name| !is_table(name)).all(is_pipe));
        let refused = match is_of_others {
            true => "it is a pipe or device of user 65534; remove it, or choose a folder",
            false => "this pipe has no reader",
        };
        assert!(trained.stderr.contains(refused), "{}", trained.stderr);
    }
}

/// Covers limits under which no file fits, only the first ones, or all but a few.
#[test]
fn no_limit_on_the_size_of_files_ends_the_training() {
    for limit in [0, 512, 2048, 30 << 10] {
        let folder = folder_for_test();
        let trained = train(folder.path(), &[(LIMIT_OF_FILES, &limit.to_string())]);
        let errors = &trained.stderr;
        assert!(trained.status.success(), "{limit}: {:?} {errors}", trained.status);
        for name in files(folder.path()) {
            let there = fs::metadata(folder.path().join(&name)).expect("there");
            assert!(there.len() <= limit, "{limit}: {}", name.display());
            let is_temporary = name.to_string_lossy().contains(".mlprof-");
            assert!(!is_temporary, "{limit}: {}", name.display());
        }
        let record = folder.path().join("fit-numerics.numerics.jsonl");
        if let Ok(record) = fs::read_to_string(record) {
            assert!(record.ends_with('\n'), "{limit}: it ends with a whole step: {record}");
        }
    }
}

/// Checks that a record that does not fit leaves the earlier one in place.
#[test]
fn a_record_replaces_an_earlier_one_only_when_it_has_something() {
    let folder = folder_for_test();
    let record = folder.path().join("fit-numerics.numerics.jsonl");
    fs::write(&record, "an earlier record\n").expect("written");
    let trained = train(folder.path(), &[(LIMIT_OF_FILES, "0")]);
    assert!(trained.status.success(), "{}", trained.stderr);
    assert_eq!(fs::read_to_string(&record).expect("there"), "an earlier record\n");
    let trained = train(folder.path(), &[]);
    assert!(trained.status.success(), "{}", trained.stderr);
    let text = fs::read_to_string(&record).expect("there");
    assert!(text.contains("numerics_version") && text.lines().count() > 6, "{text}");
}

/// Uses a standard output file with a size limit, as after `ulimit -f 2; program > out`. Under some
/// of the limits the report just fits or nearly fits.
#[test]
fn printed_reports_leave_room_for_the_programs_output() {
    let folder = folder_for_test();
    let trained = train(folder.path(), &[(PRINTS, "1")]);
    assert!(trained.status.success() && trained.stdout.contains("load_data"), "{}", trained.stdout);
    let report = trained.stdout.len() - LAST_LINE.len() - 1;
    for limit in (report - 12..report + LAST_LINE.len()).step_by(4).chain([512, 2 * report + 100]) {
        let variables = [(LIMIT_OF_FILES, &*limit.to_string()), (PRINTS, "1")];
        let trained = train(folder.path(), &variables);
        let (status, text) = (trained.status, trained.stdout);
        assert!(status.success(), "{limit}: {status:?} {text} {}", trained.stderr);
        assert!(text.ends_with(&format!("{LAST_LINE}\n")), "{limit}: {text}");
        assert_eq!(text.contains("load_data"), limit > 2 * report, "{limit}: {text}");
    }
}

/// Simulates a quota on a network file system, which reports a lack of space only at the end.
#[test]
fn a_file_that_cannot_be_flushed_does_not_replace_an_earlier_one() {
    let folder = folder_for_test();
    let trained = train(folder.path(), &[]);
    assert!(trained.status.success(), "{}", trained.stderr);
    let names = names();
    let read = |name: &PathBuf| fs::read(folder.path().join(name)).expect("there");
    let earlier: Vec<Vec<u8>> = names.iter().map(read).collect();
    let libraries = folder_for_test();
    let no_room =
        scene_runner::compile("planted_files/no_room.c", libraries.path(), "libnoroom.so");
    let no_room = no_room.to_str().expect("text");
    let trained = train(folder.path(), &[("LD_PRELOAD", no_room)]);
    assert!(trained.status.success(), "{}", trained.stderr);
    for (name, earlier) in names.iter().zip(&earlier) {
        // Text files are appended to, and tables of an earlier run are removed before new ones are
        // written.
        let is_kept = name.extension().is_some_and(|it| it != "txt") && !is_table(name);
        assert!(!is_kept || read(name) == *earlier, "{}", name.display());
    }
    let left = files(folder.path());
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".mlprof-")), "{left:?}");
    assert!(trained.stderr.contains("quota exceeded"), "{}", trained.stderr);
    assert!(trained.stdout.contains("load_data"), "the reports are printed: {}", trained.stdout);
}

/// Checks a run without enough memory for citations of source lines, which need all of the
/// program's debug information.
#[test]
fn a_place_that_there_is_no_memory_to_find_is_not_cited() {
    let folder = folder_for_test();
    let trained = train(folder.path(), &[(SHORT_OF_MEMORY, "1")]);
    assert!(trained.status.success(), "{:?} {}", trained.status, trained.stderr);
    assert!(trained.stderr.contains("is not finite"), "{}", trained.stderr);
    assert!(!trained.stderr.contains("It was called at"), "{}", trained.stderr);
}

#[test]
fn a_closed_pipe_ends_no_training() {
    let folder = folder_for_test();
    let trained = train(folder.path(), &[(CLOSED, "1")]);
    assert!(trained.status.success(), "{:?} {}", trained.status, trained.stderr);
    assert!(folder.path().join("fit-numerics.txt").is_file());
}
