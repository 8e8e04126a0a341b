//! The command line.

use mlprof_events::error_chain::Chain;
use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::live::{dump, ps, record, top};
use crate::run::tools::Tool;
use crate::{
    analyze, compare_numerics, convert, diff, machine, merge, report, run, sql, tables, what_if,
    wrapper,
};

/// Profile training programs, print and convert reports, and analyze traces
///
/// Most commands exit with 0 on success and with 2 on an error. The help of a command states its
/// other exit codes.
#[derive(Parser)]
#[command(name = "mlprof", version, bin_name = "mlprof", verbatim_doc_comment)]
struct Command {
    #[command(subcommand)]
    subcommand: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    Run(run::Arguments),
    Report(report::Arguments),
    Convert(convert::Arguments),
    Analyze(analyze::Arguments),
    WhatIf(what_if::Arguments),
    Diff(diff::Arguments),
    CompareNumerics(compare_numerics::Arguments),
    Merge(merge::Arguments),
    Schema(tables::SchemaArguments),
    Sql(sql::Arguments),
    Machine(machine::Arguments),
    Ps(ps::Arguments),
    Top(top::Arguments),
    Record(record::Arguments),
    Dump(dump::Arguments),
}

fn succeeded<E: Error + 'static>(done: Result<(), E>) -> Result<ExitCode, Box<dyn Error>> {
    done.map(|()| ExitCode::SUCCESS).map_err(Into::into)
}

/// Runs the programs `mlprof` and `cargo-mlprof`. Cargo also calls this program as its compiler
/// wrapper.
pub fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(tool) = arguments.first().and_then(|program| Tool::of_process(program)) {
        return wrapper::run(tool, arguments.split_off(1));
    }
    // `cargo mlprof …` runs `cargo-mlprof mlprof …`.
    if arguments.get(1).is_some_and(|first| first == "mlprof") {
        arguments.remove(1);
    }
    let done: Result<ExitCode, Box<dyn Error>> = match Command::parse_from(arguments).subcommand {
        Subcommands::Run(arguments) => run::run(&arguments).map(run::end_as).map_err(Into::into),
        Subcommands::Report(arguments) => report::run(&arguments).map_err(Into::into),
        Subcommands::Convert(arguments) => convert::run(&arguments).map_err(Into::into),
        Subcommands::Analyze(arguments) => analyze::run(&arguments).map_err(Into::into),
        Subcommands::WhatIf(arguments) => what_if::run(&arguments).map_err(Into::into),
        Subcommands::Diff(arguments) => diff::run(&arguments).map_err(Into::into),
        Subcommands::CompareNumerics(arguments) => {
            compare_numerics::run(&arguments).map_err(Into::into)
        }
        Subcommands::Merge(arguments) => merge::run(&arguments).map_err(Into::into),
        Subcommands::Sql(arguments) => sql::run(&arguments).map_err(Into::into),
        Subcommands::Machine(arguments) => succeeded(machine::run(&arguments)),
        Subcommands::Ps(arguments) => succeeded(ps::run(&arguments)),
        Subcommands::Top(arguments) => succeeded(top::run(&arguments)),
        Subcommands::Record(arguments) => succeeded(record::run(&arguments)),
        Subcommands::Dump(arguments) => succeeded(dump::run(&arguments)),
        Subcommands::Schema(arguments) => {
            tables::print_schema(&arguments).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
    };
    done.unwrap_or_else(|error| {
        mlprof_report::output::say(format_args!("error: {}", Chain(&*error)));
        ExitCode::from(2)
    })
}
