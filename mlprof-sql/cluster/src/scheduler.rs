//! Scheduler of a cluster, which distributes query work and reassigns it if a machine is lost.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use ballista_core::object_store::{session_config_with_s3_support, session_state_with_s3_support};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::Parser;
use mlprof_sql_cluster::{place, run};

/// Hands out the work of questions that `mlprof sql --cluster` asks.
#[derive(Parser)]
#[command(name = "mlprof-sql-scheduler", version)]
struct Arguments {
    /// Where it listens
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050", value_parser = place)]
    bind: SocketAddr,
    /// The name by which executors reach this machine
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    host: String,
    /// After how long without a sign an executor is lost, and its work is done by the others; how
    /// long to wait for one where none is left
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(3..))]
    executor_timeout: u64,
}

fn main() -> ExitCode {
    let Arguments { bind, host, executor_timeout } = Arguments::parse();
    let config = SchedulerConfig {
        bind_host: bind.ip().to_string(),
        bind_port: bind.port(),
        external_host: host,
        executor_timeout_seconds: executor_timeout,
        expire_dead_executor_interval_seconds: (executor_timeout / 10).clamp(1, 15),
        no_executors_grace_period_seconds: executor_timeout,
        override_config_producer: Some(Arc::new(session_config_with_s3_support)),
        override_session_builder: Some(Arc::new(session_state_with_s3_support)),
        ..SchedulerConfig::default()
    };
    run(async {
        let cluster = BallistaCluster::new_from_config(&config).await?;
        start_server(cluster, bind, Arc::new(config)).await?;
        Ok(())
    })
}
