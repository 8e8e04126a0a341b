//! Help texts, as the guide's reference of commands shows them.

use std::path::Path;

use super::runs::mlprof;

/// Commands with a help text of their own. `mlprof sql` prints that of the program mlprof-sql, which
/// may be missing.
const COMMANDS: [&str; 15] = [
    "",
    "run",
    "report",
    "convert",
    "analyze",
    "what-if",
    "diff",
    "compare-numerics",
    "merge",
    "schema",
    "machine",
    "ps",
    "top",
    "record",
    "dump",
];

fn help(command: &str) -> String {
    let arguments: Vec<_> = [command, "--help"].into_iter().filter(|it| !it.is_empty()).collect();
    let text = String::from_utf8(mlprof(&arguments).stdout).expect("text");
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

fn page() -> String {
    let mut page =
        "# Commands\n\nEach command prints these texts with `--help`, and a shorter form \
                    with `-h`.\n"
            .to_owned();
    for command in COMMANDS {
        let name = format!("mlprof {command}");
        let help = help(command);
        page += &format!("\n## {}\n\n```text\n{help}\n```\n", name.trim_end());
    }
    page
}

/// `cargo xtask docs --write` writes the page anew.
#[test]
fn the_guide_has_the_help_of_each_command() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference/cli.md");
    if std::env::var_os("MLPROF_TEST_WRITES_HELP").is_some() {
        std::fs::write(&file, page()).expect("the page");
    }
    let kept = std::fs::read_to_string(&file).expect("the page of commands");
    assert!(kept == page(), "cargo xtask docs --write writes {} anew", file.display());
}

#[test]
fn every_command_has_a_help_text_here() {
    let listed = help("");
    let commands = listed.split("Commands:").nth(1).expect("commands");
    let names = commands.lines().skip(1).take_while(|line| line.starts_with("  "));
    let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
    let mut missing =
        names.iter().filter(|name| !["help", "sql"].contains(*name) && !COMMANDS.contains(name));
    assert!(names.len() > 10 && missing.next().is_none(), "{names:?}");
}
