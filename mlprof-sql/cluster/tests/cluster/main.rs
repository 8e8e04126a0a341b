//! Tests that a Ballista cluster of local processes gives the same results as the program itself,
//! also with S3 and after the loss of a machine.

#[path = "../../../tests/sql/rank_tables.rs"]
mod rank_tables;
#[path = "../../../tests/sql/rows.rs"]
mod rows;

mod machines;
#[path = "../../../tests/sql/server.rs"]
mod server;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use machines::{Cluster, free_port};
use rank_tables::ranks;
use rows::{Row, compared};
use server::Server;

/// Timeout of a wait, longer than any test takes.
const TOO_LONG: Duration = Duration::from_secs(600);

/// Returns the program `mlprof-sql`, which is built as an example here, because tests only know
/// programs of their own package.
fn command(arguments: &[&str]) -> Command {
    let this = std::env::current_exe().expect("a test has a program");
    let folder = this.parent().and_then(Path::parent).expect("it lies in a folder of cargo's");
    let mut command = Command::new(folder.join("examples/ask"));
    command.args(arguments).args(["--format", "json"]).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

fn rows_of(output: &Output) -> Vec<Row> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = &output.stdout;
    serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error} in {}", text(json)))
}

fn refused(output: &Output, expected: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: ") && said.contains(expected), "no {expected:?} in {said}");
    assert!(output.stdout.is_empty());
}

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < TOO_LONG, "{what} never comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn answers_are_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 5, 12, (1, 5_000));
    let cluster = Cluster::start(2, None);
    let mut count = 0;
    for question in mlprof_sql::questions::ALL {
        let here = run(&[path(folder.path()), question.name]);
        let there = run(&[path(folder.path()), question.name, "--cluster", cluster.address()]);
        count += compared(&rows_of(&there), &rows_of(&here), question.name);
    }
    assert!(count > 1_000, "{count} values");
    println!("{count} values are the same");
    // An SQL error has the same message as without a cluster.
    let wrong = [path(folder.path()), "select nam from slices"];
    refused(&run(&[&wrong[..], &["--cluster", cluster.address()]].concat()), "nam");
}

#[test]
fn tables_in_s3_are_read_by_the_machines_of_the_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 3, 6, (1, 5_000));
    let Some(server) = Server::of(folder.path()) else {
        println!("skipped: {} names no Python with moto", server::PYTHON);
        return;
    };
    let keys = server::KEYS.map(|(name, value)| (name, value.to_owned()));
    let mut variables = keys.to_vec();
    variables.extend([
        ("AWS_ENDPOINT_URL", server.endpoint.clone()),
        // The machines of a cluster need this variable explicitly, whereas mlprof-sql derives it
        // from the endpoint.
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ]);
    let cluster = Cluster::start(2, Some(&variables));
    for question in ["straggler", "exposed", "recorded"] {
        let here = run(&[path(folder.path()), question]);
        let address = ["s3://fleet/traces/run 1", question, "--cluster", cluster.address()];
        let there = command(&address).envs(variables.iter().cloned()).output();
        let there = there.expect("the program was built");
        assert!(compared(&rows_of(&there), &rows_of(&here), question) > 3);
    }
}

/// Starts a query on the cluster and returns while it runs.
fn asked_meanwhile(folder: &Path, question: &str, cluster: &Cluster) -> Child {
    let arguments = [path(folder), question, "--cluster", cluster.address()];
    let mut command = command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program was built")
}

#[test]
fn a_machine_that_is_killed_in_the_middle_costs_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 24, 24, (1, 5_000));
    let here = rows_of(&run(&[path(folder.path()), "overlap"]));
    let mut cluster = Cluster::start(2, None);
    let mut asked = asked_meanwhile(folder.path(), "overlap", &cluster);
    // The results that the second machine has computed are lost with it.
    until("work of the second machine", || {
        assert!(asked.try_wait().expect("its state").is_none(), "it was answered before");
        cluster.has_work(1)
    });
    cluster.kill(1);
    assert!(asked.try_wait().expect("its state").is_none(), "it was answered before");
    let there = asked.wait_with_output().expect("an answer");
    let count = compared(&rows_of(&there), &here, "overlap");
    println!("{count} values are the same, one of two machines was killed in the middle");
    assert!(count > 24);
    // The remaining executor answers further queries.
    let address = cluster.address().to_owned();
    let next = [path(folder.path()), "straggler", "--cluster", &address];
    let here = rows_of(&run(&[path(folder.path()), "straggler"]));
    assert!(compared(&rows_of(&run(&next)), &here, "straggler") > 3);
    // Without any executor, the query fails with an error message.
    cluster.kill(0);
    refused(&run(&next), "all executors were lost");
}

#[test]
fn a_cluster_that_is_not_there_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 2, 6, (1, 5_000));
    let ask = |address: &str| run(&[path(folder.path()), "straggler", "--cluster", address]);
    let nobody = format!("df://127.0.0.1:{}", free_port());
    refused(&ask(&nobody), &format!("cannot reach the cluster at {nobody}: "));
    refused(&ask("127.0.0.1:50050"), "cannot use 127.0.0.1:50050 as a cluster scheduler");
    let both = [path(folder.path()), "steps", "--cluster", &nobody, "--memory", "7"];
    assert!(text(&run(&both).stderr).contains("cannot be used with"));
}
