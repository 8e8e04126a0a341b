//! `mlprof dump`: prints the actions that the threads of a training currently execute.

use mlprof_events::live::{Answer, Dump, Request};

use super::client::Client;
use super::{Error, ProcessName, print, stacks};

/// Print the open actions of each thread of a running training
///
/// The output lists the actions from the outermost to the innermost, with the time since each
/// began. Actions are known if the program has a Simple or an Advanced profiler.
///
/// --stacks also prints the functions on the stack of each thread, in any language and without a
/// profiler (Linux). It interrupts each thread once or twice.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Process id, as printed by mlprof ps
    #[arg(value_name = "PID")]
    pub process: ProcessName,
    /// Also print the stack of each thread, innermost function first (Linux)
    ///
    /// Idle threads that wait for the same object share a line.
    #[arg(long)]
    pub stacks: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the open actions.
///
/// # Errors
///
/// Returns an error if the process cannot be queried, or if the result cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let process = arguments.process;
    let mut dump =
        match Client::connect(process)?.ask(Request::Dump { stacks: arguments.stacks })? {
            Answer::Dump(dump) => dump,
            other => return Err(Error::unexpected(process, other)),
        };
    // A process that supports stacks adds its own note when it has none.
    if arguments.stacks
        && dump.stacks.is_empty()
        && !dump.notes.iter().any(|it| it.contains("stacks"))
    {
        let note =
            "there are no stacks: the program uses an older mlprof, which cannot record them";
        dump.notes.push(note.to_owned());
    }
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
        text += "no open actions\n";
    }
    text += &stacks::text(&dump.stacks);
    dump.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

#[cfg(test)]
mod tests {
    use mlprof_events::live::{OpenAction, OpenThread, StackFrame, ThreadStack};

    use super::*;

    #[test]
    fn inner_actions_are_indented() {
        let open = |action: &str, seconds| OpenAction { action: action.into(), seconds };
        let thread = OpenThread {
            thread: "main".into(),
            open: vec![open("run_training_epoch", 2.5), open("training_step", 0.001)],
        };
        let dump = Dump { threads: vec![thread], stacks: Vec::new(), notes: Vec::new() };
        let expected = "\
main
  run_training_epoch (for 2.500000 s)
    training_step (for 0.001000 s)
";
        assert_eq!(text(&dump), expected);
        let nothing = Dump { threads: Vec::new(), stacks: Vec::new(), notes: Vec::new() };
        assert_eq!(text(&nothing), "no open actions\n");
    }

    #[test]
    fn stacks_begin_with_what_is_executed() {
        let frame = |function: &str, library: &str, at: Option<(&str, u32)>| StackFrame {
            function: function.into(),
            library: library.into(),
            file: at.map(|(file, _)| file.into()),
            line: at.map(|(_, line)| line),
        };
        let stack =
            |thread: &str, number, frames| ThreadStack { thread: thread.into(), number, frames };
        let main = vec![
            frame("read", "libc.so.6", None),
            frame("data::load", "digits", Some(("src/data.rs", 12))),
            frame("(unknown callers)", "", None),
        ];
        let stacks = vec![stack("main", 4711, main), stack("loader", 4712, Vec::new())];
        let dump = Dump { threads: Vec::new(), stacks, notes: vec!["no profiler".into()] };
        let expected = "main (thread 4711) is in
  read (libc.so.6)
  data::load (src/data.rs:12)
  (unknown callers)
loader (thread 4712) is in
  (unknown: the thread could not be interrupted)
note: no profiler
";
        assert_eq!(text(&dump), expected);
    }
}
