//! Tests of tables in S3, with a local server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use crate::rank_tables::ranks;
use crate::server::{KEYS, PYTHON, Server};
use crate::{path, program, text};

/// Runs the program with these variables and without any `AWS_*` variables of the user.
fn with_keys(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlprof-sql"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied());
    command.args(arguments).stdin(Stdio::null()).output().expect("the program was built")
}

fn asked_of(endpoint: &str, address: &str, question: &str) -> Output {
    let mut variables = KEYS.to_vec();
    variables.push(("AWS_ENDPOINT_URL", endpoint));
    with_keys(&[address, question, "--format", "json"], &variables)
}

fn refused(output: &Output, expected: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: ") && said.contains(expected), "no {expected:?} in {said}");
}

#[test]
fn tables_in_s3_are_asked_as_those_of_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    ranks(folder.path(), 3, 6, (1, 5_000));
    // This file is truncated, which must also be reported for S3.
    let cut = folder.path().join("steps/0-0.parquet");
    let whole = std::fs::read(&cut).expect("a file");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    let Some(server) = Server::of(folder.path()) else {
        println!("skipped: {PYTHON} names no Python with moto");
        return;
    };
    for address in ["s3://fleet/traces/run 1", "s3://fleet/traces/run 1/"] {
        for question in ["straggler", "exposed", "overlap", "recorded"] {
            let output = asked_of(&server.endpoint, address, question);
            let local = program(&[path(folder.path()), question, "--format", "json"]);
            assert_eq!(text(&output.stdout), text(&local.stdout), "{question}: {output:?}");
            assert_eq!(output.status, local.status, "{question}: {output:?}");
            assert!(output.stdout.len() > 10, "{question}");
        }
    }
    let count =
        asked_of(&server.endpoint, "s3://fleet/traces/run 1", "select count(*) as n from steps");
    assert_eq!((count.status.code(), text(&count.stdout).trim()), (Some(1), r#"[{"n":30}]"#));
    let note = "s3://fleet/traces/run 1/steps/0-0.parquet: it is not Parquet, or is incomplete: ";
    assert!(text(&count.stderr).contains(note), "{count:?}");
    let address = "s3://nowhere/traces";
    refused(
        &asked_of(&server.endpoint, address, "straggler"),
        &format!("cannot read {address}: {} has no such bucket", server.endpoint),
    );
    let nothing = asked_of(&server.endpoint, "s3://fleet/elsewhere", "straggler");
    refused(&nothing, "cannot query s3://fleet/elsewhere: it has no trace tables");
}

/// Starts a server that sends this response to each connection, one at a time. Returns its address.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let reply = move |mut stream: TcpStream| {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(answer.as_bytes());
    };
    std::thread::spawn(move || listener.incoming().flatten().for_each(reply));
    format!("http://{address}")
}

#[test]
fn object_store_errors_are_one_sentence() {
    let endpoint = answering(
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 36\r\nConnection: close\r\n\r\n<Error>SignatureDoesNotMatch</Error>",
    );
    let address = "s3://fleet/traces";
    let expected = format!("cannot read {address}: {endpoint} denies access: ");
    refused(&asked_of(&endpoint, address, "straggler"), &expected);
    // No server listens on this port.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let endpoint = format!("http://{free}");
    let output = asked_of(&endpoint, address, "straggler");
    refused(&output, &format!("cannot read {address} from {endpoint}: "));
    let metadata = [("AWS_METADATA_ENDPOINT", endpoint.as_str()), ("AWS_REGION", "us-east-1")];
    let output = with_keys(&[address, "straggler"], &metadata);
    refused(
        &output,
        &format!("cannot read {address}: there are no credentials; set AWS_ACCESS_KEY_ID"),
    );
    for (address, expected) in [
        ("s3:///traces", "cannot read s3:///traces: the address has no bucket"),
        (
            "gs://fleet/traces",
            "cannot read gs://fleet/traces: give a local folder or an S3 address",
        ),
    ] {
        refused(&with_keys(&[address, "straggler"], &KEYS), expected);
    }
}
