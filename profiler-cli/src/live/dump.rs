//! `mlprof dump`: what the threads of a training are in right now.

use profiler_events::live::{Answer, Dump, Request};

use super::client::Client;
use super::{Error, print};

/// Says what every thread of a training is in right now: its open actions, outermost first, and for how long.
///
/// They are known where a Simple or an Advanced profiler measures.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The number of its process: mlprof ps lists them
    #[arg(value_name = "PID")]
    pub process: u32,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints what is open.
///
/// # Errors
///
/// If the process cannot be asked, or it cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let process = arguments.process;
    let dump = match Client::connect(process)?.ask(Request::Dump)? {
        Answer::Dump(dump) => dump,
        other => return Err(Error::unexpected(process, other)),
    };
    let text = if arguments.json {
        let json = serde_json::to_string_pretty(&dump).map_err(|error| Error::Write {
            path: "standard output".into(),
            error: error.into(),
        })?;
        json + "\n"
    } else {
        text(&dump)
    };
    print(&text).map(drop)
}

fn text(dump: &Dump) -> String {
    let mut text = String::new();
    for thread in &dump.threads {
        text += &format!("{}\n", thread.thread);
        for (depth, open) in thread.open.iter().enumerate() {
            let indent = "  ".repeat(depth + 1);
            text += &format!("{indent}{} (for {:.6} s)\n", open.action, open.seconds);
        }
    }
    if dump.threads.is_empty() && dump.notes.is_empty() {
        text += "nothing is open\n";
    }
    dump.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

#[cfg(test)]
mod tests {
    use profiler_events::live::{OpenAction, OpenThread};

    use super::*;

    #[test]
    fn what_is_inside_is_further_to_the_right() {
        let open = |action: &str, seconds| OpenAction { action: action.into(), seconds };
        let thread = OpenThread {
            thread: "main".into(),
            open: vec![open("run_training_epoch", 2.5), open("training_step", 0.001)],
        };
        let dump = Dump { threads: vec![thread], notes: Vec::new() };
        let expected = "\
main
  run_training_epoch (for 2.500000 s)
    training_step (for 0.001000 s)
";
        assert_eq!(text(&dump), expected);
        let nothing = Dump { threads: Vec::new(), notes: Vec::new() };
        assert_eq!(text(&nothing), "nothing is open\n");
    }
}
