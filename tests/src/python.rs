//! Runs Python scripts, which read `.prof` and JSON files as users do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Runs a script that uses only the standard library. `arguments` are its `sys.argv[1:]`.
///
/// Panics with the script's standard error if it fails. Returns the script's standard output.
pub fn run(script: &str, arguments: &[&Path]) -> String {
    run_with(Path::new("python3"), script, arguments)
}

/// Runs a script that may also import snakeviz.
pub fn run_with_snakeviz(script: &str, arguments: &[&Path]) -> String {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let python = PYTHON
        .get_or_init(|| environment_with("snakeviz", "import snakeviz", &["snakeviz==2.2.2"]));
    run_with(python, script, arguments)
}

/// HolisticTraceAnalysis and TensorBoard's profiler plugin with the dependencies for reading a
/// trace. Their full dependencies include Jupyter. HolisticTraceAnalysis does not support pandas 3.
const TRACE_READERS: [&str; 20] = [
    "--no-deps",
    "HolisticTraceAnalysis==0.5.0",
    "torch-tb-profiler==0.4.3",
    "absl-py==2.5.1",
    "MarkupSafe==3.0.4",
    "narwhals==2.28.0",
    "networkx==3.4.2",
    "numpy==2.2.6",
    "packaging==26.3",
    "pandas==2.3.3",
    "plotly==7.1.0",
    "psutil==7.2.2",
    "pydot==4.0.1",
    "pyparsing==3.3.3",
    "python-dateutil==2.9.0.post0",
    "pytz==2026.2",
    "PyYAML==6.0.3",
    "six==1.17.0",
    "tensorboard==2.21.0",
    "tzdata==2026.6",
];

/// Runs a script that may also import HolisticTraceAnalysis (`hta`) and `torch_tb_profiler`.
pub fn run_with_trace_readers(script: &str, arguments: &[&Path]) -> String {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let probe = "import hta.trace_analysis, torch_tb_profiler.profiler.loader";
    let python = PYTHON.get_or_init(|| environment_with("trace-readers", probe, &TRACE_READERS));
    run_with(python, script, arguments)
}

/// XProf, and TensorBoard with XProf's plugin, without the dependencies for Google Cloud Storage
/// and JAX.
const XPROF: [&str; 24] = [
    "--no-deps",
    "xprof==2.24.2",
    "tensorboard==2.21.0",
    "absl-py==2.5.1",
    "cheroot==11.1.2",
    "etils==1.15.0",
    "fsspec==2026.9.0",
    "grpcio==1.85.3",
    "gviz-api==1.10.0",
    "importlib_resources==7.1.0",
    "jaraco.functools==4.6.0",
    "Markdown==3.11.3",
    "MarkupSafe==3.0.4",
    "more-itertools==11.2.1",
    "numpy==2.2.6",
    "packaging==26.3",
    "pillow==13.0.0",
    "protobuf==7.36.2",
    // This is the last version with `pkg_resources`, which TensorBoard needs.
    "setuptools==80.9.0",
    "six==1.17.0",
    "tensorboard-data-server==0.7.2",
    "typing_extensions==4.16.0",
    "Werkzeug==3.1.9",
    "zipp==4.1.2",
];

/// Runs a script that may also import `xprof`'s converters and start TensorBoard. The converters
/// provide the data for XProf's pages and for TensorBoard's Profile tab.
pub fn run_with_xprof(script: &str, arguments: &[&Path]) -> String {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let probe =
        "from xprof.convert import raw_to_tool_data; import tensorboard.main, xprof.profile_plugin";
    let python = PYTHON.get_or_init(|| environment_with("xprof", probe, &XPROF));
    run_with(python, script, arguments)
}

/// Runs a script that may also import `duckdb` and `pyarrow`.
pub fn run_with_columns(script: &str, arguments: &[&Path]) -> String {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let requirements = ["--no-deps", "duckdb==2.0.0", "pyarrow==26.0.1"];
    let python = PYTHON.get_or_init(|| {
        environment_with("columns", "import duckdb, pyarrow.parquet", &requirements)
    });
    run_with(python, script, arguments)
}

/// Returns an interpreter with OpenTelemetry's messages (`opentelemetry.proto`), and the program of
/// an OpenTelemetry collector.
pub fn with_opentelemetry() -> (PathBuf, PathBuf) {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let requirements =
        ["--no-deps", "opentelemetry-proto==1.45.2", "protobuf==7.36.2", "rotel==0.0.1a15"];
    let agent = "import importlib.util as util, os; \
                 agent = os.path.join(util.find_spec('rotel').submodule_search_locations[0], 'rotel-agent')";
    let probe = format!(
        "from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2; {agent}; os.stat(agent)"
    );
    let python = PYTHON.get_or_init(|| environment_with("opentelemetry", &probe, &requirements));
    let agent = run_with(python, &format!("{agent}; print(agent)"), &[]);
    (python.clone(), agent.trim_end().into())
}

fn run_with(python: &Path, script: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new(python);
    command.arg("-c").arg(script).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run {}: {error}. These tests need Python 3.", python.display())
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "python failed:\n{stderr}\nscript:\n{script}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a virtual environment in the build folder, which is created once. `probe` is a script
/// that fails if a package is missing.
fn environment_with(name: &str, probe: &str, requirements: &[&str]) -> PathBuf {
    let directory = crate::target_directory().join("python").join(name);
    let python = directory.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let is_complete = || {
        let output = Command::new(&python).args(["-c", probe]).output();
        output.is_ok_and(|output| output.status.success())
    };
    if is_complete() {
        return python;
    }
    // Another test program may be creating it concurrently.
    std::fs::create_dir_all(&directory).expect("a folder");
    let lock = std::fs::File::create(directory.with_extension("lock")).expect("a file");
    lock.lock().expect("a lock");
    if is_complete() {
        return python;
    }
    let succeed = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().expect("python3 runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} failed:\n{stderr}");
    };
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory));
    succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(requirements));
    assert!(is_complete(), "{} cannot {probe:?}", python.display());
    python
}
