//! Tests the Prometheus endpoint: its access control and its answers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mlprof_events::live::{Answer, Request, TOKEN};
use serde_json::Value;

use crate::asking::{Program, wait_until};

/// Program that serves metrics at a free port.
pub struct Scraped {
    pub program: Program,
    address: String,
    said: String,
}

impl Scraped {
    pub fn start(scene: &str, more: &[(&'static str, &str)]) -> Self {
        let mut environment = HashMap::from([("MLPROF_METRICS_PORT", PathBuf::from("0"))]);
        environment.extend(more.iter().map(|(name, value)| (*name, PathBuf::from(value))));
        let mut program = Program::start_in(scene, "1", &environment);
        let said = program.error_line();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split("/metrics").next());
        let address = address.unwrap_or_else(|| panic!("no address in {said}")).to_owned();
        Self { program, address, said }
    }

    fn token_file(&self) -> PathBuf {
        let name = self.program.identity.file_name(TOKEN);
        self.program.folder.path().join("mlprof").join(name)
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers, and closes");
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn scrape(&self) -> String {
        let token = std::fs::read_to_string(self.token_file()).expect("a token");
        let answer = self.ask(&format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            self.address
        ));
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        body.to_owned()
    }
}

/// Returns the value of a series.
pub fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().expect("a number")
}

pub fn a_training_is_scraped() {
    let mut scraped = Scraped::start("simple", &[]);
    scraped.program.steps(5);
    let text = scraped.scrape();
    let name = std::env::current_exe().expect("a path");
    let program = name.file_name().expect("a name").to_string_lossy().into_owned();
    let labels = format!("program=\"{program}\",rank=\"0\"");
    let of_fit = format!("{{{labels},stage=\"fit\"}}");
    assert_eq!(value(&text, &format!("mlprof_steps_total{of_fit}")), 5.0);
    assert_eq!(value(&text, &format!("mlprof_step_seconds_count{of_fit}")), 5.0);
    let step = format!("mlprof_action_seconds_count{{{labels},action=\"training_step\"}}");
    assert_eq!(value(&text, &step), 5.0);
    assert_eq!(value(&text, &format!("mlprof_actions_left_out{{{labels}}}")), 0.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    scraped.program.steps(2);
    assert_eq!(value(&scraped.scrape(), &step), 7.0, "it counts on");
    let file = scraped.token_file();
    assert_eq!(file.metadata().expect("a file").mode() & 0o777, 0o600);
    assert!(scraped.said.contains(&file.display().to_string()), "{}", scraped.said);
    let (status, said, errors) = scraped.program.end();
    // The program's own results are the same as without the metrics.
    assert!(status.success() && said.contains("calls: 7\nops were wanted: false"), "{said}");
    assert_eq!(errors, "");
    assert!(!file.exists(), "the token is gone with the process");
}

pub fn unauthorized_metrics_requests_are_rejected() {
    let scraped = Scraped::start("none", &[]);
    let answer = scraped.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{answer}");
    assert!(!answer.to_ascii_lowercase().contains("access-control"), "{answer}");
    let answer = scraped.ask("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    assert!(scraped.ask("\x16\x03\x01\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(scraped.program.end().0.success());
}

/// The connections take all slots, but only for a limited time, and the training continues.
pub fn a_thousand_who_ask_for_nothing_do_not_disturb() {
    let mut scraped = Scraped::start("simple", &[]);
    allow_open_files(2000);
    let connect = |_| TcpStream::connect(&scraped.address).expect("it listens");
    let left = RefCell::new((0..1000).map(connect).collect::<Vec<_>>());
    scraped.program.steps(10);
    // Eight connections wait for a request. All others were refused at once, even if they have not
    // read the answer yet.
    let is_refused = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 503 ")
    };
    let refused = RefCell::new(0);
    wait_until(|| {
        let before = left.borrow().len();
        left.borrow_mut().retain_mut(|stream| !is_refused(stream));
        *refused.borrow_mut() += before - left.borrow().len();
        *refused.borrow() >= 900
    });
    let began = Instant::now();
    wait_until(|| {
        std::thread::sleep(Duration::from_millis(100));
        let mut stream = TcpStream::connect(&scraped.address).expect("it listens");
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 401 ")
    });
    println!(
        "    answered after {:.1} s beside a thousand who ask nothing",
        began.elapsed().as_secs_f64()
    );
    scraped.program.steps(10);
    drop(left);
    let (status, said, errors) = scraped.program.end();
    assert!(status.success() && said.contains("calls: 20\n"), "{said}");
    assert_eq!(errors, "");
}

/// Raises the limit of open files of this program, as far as the system allows.
fn allow_open_files(count: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both pointers refer to `limit`, which is initialised and outlives the calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_cur.max(count.min(limit.rlim_max));
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// The child neither keeps the port nor removes the token.
pub fn a_forked_child_has_no_metrics() {
    let scraped = Scraped::start("fork", &[]);
    let (program, token) = (&scraped.program, scraped.token_file());
    let file = program.folder.path().join("child");
    wait_until(|| std::fs::read_to_string(&file).is_ok_and(|text| !text.is_empty()));
    let child = std::fs::read_to_string(&file).expect("text");
    let port: u16 = scraped.address.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let socket = socket_of_port(port);
    let has = |process: &str| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it lives").flatten();
        let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.into_iter().any(|target| target == Path::new(&socket))
    };
    assert!(has(&program.child.id().to_string()) && !has(&child), "{socket}");
    std::fs::remove_file(&file).expect("removed");
    // The parent waits for the child, and then for the end of its input.
    wait_until(|| !Path::new(&format!("/proc/{child}")).exists());
    assert!(token.exists(), "a child removes nothing of its parent's");
    assert!(scraped.scrape().contains("process_resident_memory_bytes "));
    assert!(scraped.program.end().0.success());
}

/// Returns the system's name of the socket that listens at a local port.
fn socket_of_port(port: u16) -> String {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let listens = format!("0100007F:{port:04X} 00000000:0000 0A");
    let line = table.lines().find(|line| line.contains(&listens)).expect("it listens");
    let inode = line.split_whitespace().nth(9).expect("its number");
    format!("socket:[{inode}]")
}

pub fn a_token_can_be_ones_own_or_none() {
    let scraped = Scraped::start("none", &[("MLPROF_METRICS_TOKEN", "off")]);
    assert!(
        scraped.said.contains("without a token for all users of this machine"),
        "{}",
        scraped.said
    );
    let answer = scraped.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !scraped.token_file().exists());
    let port = scraped.address.rsplit_once(':').expect("a port").1.to_owned();
    let environment = HashMap::from([("MLPROF_METRICS_PORT", PathBuf::from(&port))]);
    let mut other = Program::start_in("none", "0", &environment);
    let said = other.error_line();
    let expected =
        format!("mlprof: metrics are not available: cannot listen on port {port} of 127.0.0.1: ");
    assert!(said.starts_with(&expected), "{said}");
    let token = other.folder.path().join("mlprof").join(other.identity.file_name(TOKEN));
    assert!(!token.exists(), "whoever cannot have the port leaves no token");
    assert!(other.end().0.success() && scraped.program.end().0.success());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "secret\n").expect("written");
    let scraped = Scraped::start("none", &[("MLPROF_METRICS_TOKEN", file.to_str().expect("text"))]);
    let ask = |token: &str| {
        let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer";
        scraped.ask(&format!("{head} {token}\r\n\r\n"))
    };
    assert!(
        ask("secret").starts_with("HTTP/1.1 200 OK\r\n")
            && ask("other").starts_with("HTTP/1.1 401 ")
    );
}

/// Groups of eight silent connections must not keep out a client with the token.
pub fn clients_without_a_token_keep_nobody_out() {
    let scraped = Scraped::start("none", &[]);
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.extend((0..8).map(|_| TcpStream::connect(&scraped.address).expect("it listens")));
        assert!(
            scraped.scrape().contains("mlprof_recording"),
            "at once, and not once they have gone"
        );
    }
    let (status, _, errors) = scraped.program.end();
    assert!(status.success() && errors.is_empty(), "{errors}");
}

/// At the user's last logout, the system removes the folder with the token.
pub fn a_token_that_was_removed_is_written_again() {
    let scraped = Scraped::start("none", &[]);
    let (file, folder) = (scraped.token_file(), scraped.program.folder.path().join("mlprof"));
    let before = std::fs::read_to_string(&file).expect("a token");
    std::fs::remove_dir_all(&folder).expect("removed");
    wait_until(|| std::fs::read_to_string(&file).is_ok_and(|token| token == before));
    assert!(scraped.scrape().contains("mlprof_recording"));
    let (status, _, errors) = scraped.program.end();
    assert!(status.success() && errors.is_empty() && !file.exists(), "{errors}");
}

/// Prometheus process that accepts native histograms. It is killed when this value is dropped.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Starts Prometheus, which scrapes one address every second. Returns `None` if the program is
    /// not installed.
    fn start(folder: &Path, address: &str, token: &Path) -> Option<Self> {
        // The port was free a moment ago.
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let config = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: training\n    \
             authorization: {{credentials_file: '{}'}}\n    static_configs: [{{targets: ['{address}']}}]\n",
            token.display()
        );
        std::fs::write(folder.join("prometheus.yml"), config).expect("written");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            // This feature is enabled by default from version 3.8 on.
            .arg("--enable-feature=native-histograms")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.ok().map(|child| Self { child, port })
    }

    /// Returns the value of an expression, or `None` if it does not have a value yet.
    fn query(&self, expression: &str) -> Option<f64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let escape = |byte: u8| format!("%{byte:02X}");
        let query: String = expression.bytes().map(escape).collect();
        write!(stream, "GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs calls whose duration in milliseconds is about their number.
pub fn train(program: &mut Program, calls: u64) {
    for number in 1..=calls {
        let go = program.folder.path().join(format!("go{number}"));
        program.tell(&format!("in {}", go.display()));
        std::thread::sleep(Duration::from_millis(number));
        std::fs::write(&go, "").expect("written");
        program.await_done();
    }
}

pub fn prometheus_reads_what_the_report_says() {
    const CALLS: u64 = 60;
    let mut scraped = Scraped::start("simple", &[]);
    train(&mut scraped.program, CALLS);
    let folder = tempfile::tempdir().expect("a folder");
    let started = Prometheus::start(folder.path(), &scraped.address, &scraped.token_file());
    let Some(prometheus) = started else {
        println!("    there is no prometheus here: it is not asked");
        return;
    };
    let mut promtool = Command::new("promtool");
    let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut promtool = promtool.stderr(Stdio::piped()).spawn().expect("it comes with prometheus");
    let mut input = promtool.stdin.take().expect("piped");
    input.write_all(scraped.scrape().as_bytes()).expect("written");
    drop(input);
    let said = promtool.wait_with_output().expect("it ends");
    assert!(said.status.success() && said.stdout.is_empty() && said.stderr.is_empty(), "{said:?}");

    let action = "mlprof_action_seconds{action=\"training_step\"}";
    // This function only works with native histograms.
    let count = format!("histogram_count({action})");
    wait_until(|| prometheus.query(&count) == Some(CALLS as f64));
    let mut connection = scraped.program.connect();
    connection.ask(Request::Report);
    let Some(Answer::Report { reports }) = connection.answer() else { panic!("no report") };
    let rows = reports[0]["actions"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["action"] == "training_step").expect("a row");
    let same = |expression: String, expected: &Value, tolerance: f64| {
        let (found, expected) = (prometheus.query(&expression), expected.as_f64());
        let (found, expected) = (found.expect("a value"), expected.expect("a number"));
        let differs = (found / expected - 1.0).abs();
        assert!(differs < tolerance, "{expression}: {found} s, and {expected} s in the report");
    };
    same(format!("histogram_sum({action})"), &row["total_seconds"], 0.02);
    // The native buckets are a twelfth wide, and those of the report an eighth. The report also
    // excludes the first call.
    same(format!("histogram_quantile(0.5, {action})"), &row["rest"]["p50_seconds"], 0.25);
    same(format!("histogram_quantile(0.95, {action})"), &row["rest"]["p95_seconds"], 0.25);
}
