//! Executor of a cluster, which reads tables and runs query work.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;

use ballista_core::object_store::{runtime_env_with_s3_support, session_config_with_s3_support};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use clap::Parser;
use mlprof_sql_cluster::{host_and_port, place, run};

/// Run parts of the queries of `mlprof sql --cluster` on this machine
#[derive(Parser)]
#[command(name = "mlprof-sql-executor", version)]
struct Arguments {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050", value_parser = host_and_port)]
    scheduler: (String, u16),
    /// Address to listen on, where other executors fetch results
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051", value_parser = place)]
    bind: SocketAddr,
    /// Second port of that address, which the scheduler connects to
    #[arg(long, value_name = "PORT", default_value_t = 50052)]
    port_for_scheduler: u16,
    /// Name of this machine for the other machines [default: the address that they see]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Number of parallel tasks [default: number of cores]
    #[arg(long, value_name = "COUNT")]
    cores: Option<NonZeroUsize>,
    /// Memory limit of all tasks in MiB [default: a share of the machine's memory]
    ///
    /// Sorts and aggregations beyond the limit use the disk.
    #[arg(long, value_name = "MIB")]
    memory: Option<NonZeroUsize>,
    /// Folder for intermediate results [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    work_directory: Option<PathBuf>,
    /// Heartbeat interval in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    heartbeat: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (scheduler_host, scheduler_port) = arguments.scheduler;
    let cores = arguments.cores.or_else(|| available_parallelism().ok());
    let bytes = |mebibytes: NonZeroUsize| (mebibytes.get() as u64).saturating_mul(1 << 20);
    let config = ExecutorProcessConfig {
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: 60,
        bind_host: arguments.bind.ip().to_string(),
        port: arguments.bind.port(),
        grpc_port: arguments.port_for_scheduler,
        external_host: arguments.host,
        vcores: cores.map_or(1, NonZeroUsize::get),
        memory_pool_size: arguments.memory.map(bytes),
        work_dir: arguments.work_directory.map(|folder| folder.display().to_string()),
        executor_heartbeat_interval_seconds: arguments.heartbeat,
        override_config_producer: Some(Arc::new(session_config_with_s3_support)),
        override_runtime_producer: Some(Arc::new(runtime_env_with_s3_support)),
        ..ExecutorProcessConfig::default()
    };
    run(async {
        start_executor_process(Arc::new(config)).await?;
        Ok(())
    })
}
