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

/// Distribute the queries of `mlprof sql --cluster` to the executors of a cluster
#[derive(Parser)]
#[command(name = "mlprof-sql-scheduler", version)]
struct Arguments {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050", value_parser = place)]
    bind: SocketAddr,
    /// Name of this machine for the executors
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    host: String,
    /// Time in seconds without a heartbeat after which an executor counts as lost
    ///
    /// Its work goes to the other executors. Without any executor, queries wait as long for one.
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
