//! Message for a run in which no process was measured.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::cargo_command::is_cargo;
use super::explain::current;
use super::plan::Plan;
use super::record::CrateRecord;

/// Maximum number of programs to list; a workspace may contain hundreds.
const NAMED: usize = 5;

/// Returns the lines that explain why no process of `command` was measured and what to do. `users`
/// is the user's own build folder.
pub fn lines(
    command: &[OsString],
    has_succeeded: bool,
    users: &Path,
    plan: &Plan,
    records: &[CrateRecord],
) -> Vec<String> {
    if is_cargo(command) && !has_succeeded {
        return Vec::new(); // cargo has printed the reason
    }
    let obstacles: BTreeSet<_> = current(plan, records)
        .filter_map(|record| Some(format!("{}: {}", record.package, record.obstacle.as_deref()?)))
        .collect();
    let hooked: BTreeSet<_> = current(plan, records)
        .filter(|record| record.obstacle.is_none())
        .filter_map(|record| artifact(&plan.target, record.program.as_deref()?))
        .collect();
    let begin = "no process of this command was measured";
    if !obstacles.is_empty() && hooked.is_empty() {
        let reasons = obstacles.into_iter().map(|reason| format!("  {reason}"));
        return [format!("{begin}: these packages have no hooks:")]
            .into_iter()
            .chain(reasons)
            .collect();
    }
    if is_cargo(command) || hooked.is_empty() {
        let target = plan.target.display();
        let reason = format!("it must build its programs with cargo in {target}, and run them");
        return if has_succeeded { vec![format!("{begin}: {reason}")] } else { Vec::new() };
    }
    let mut lines = vec![format!(
        "{begin}: the programs with hooks are in $CARGO_TARGET_DIR, which is {}",
        plan.target.display()
    )];
    for program in hooked.iter().take(NAMED) {
        let usual = users.join(program);
        let what = if usual.exists() { "has no hooks" } else { "does not exist" };
        let (program, usual) = (program.display(), usual.display());
        lines.push(format!(
            "  start \"$CARGO_TARGET_DIR/{program}\" instead of {usual}, which {what}"
        ));
    }
    if hooked.len() > NAMED {
        lines.push(format!("  and {} other programs", hooked.len() - NAMED));
    }
    let environment = "  programs without the environment of this command are not measured (sudo, \
                       env -i, containers)";
    lines.push(environment.to_owned());
    lines
}

/// Returns the path of the program below the build folder. Examples are in a separate folder.
fn artifact(target: &Path, program: &Path) -> Option<PathBuf> {
    let example = program.parent()?.join("examples").join(program.file_name()?);
    [program.to_owned(), example].into_iter().find(|program| target.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlprof_instrument::SelectionBuilder;

    fn plan(target: &Path) -> Plan {
        Plan {
            selection: SelectionBuilder::default()
                .functions(["app::*"])
                .expect("a pattern")
                .build(),
            tracks_allocations: false,
            frame_pointers: false,
            runtime: "/r/lib.so".into(),
            target: target.to_owned(),
            folder: target.join("state"),
            chained_wrapper: None,
            rustdoc: None,
        }
    }

    fn record(plan: &Plan, program: &str, obstacle: Option<&str>) -> CrateRecord {
        CrateRecord {
            crate_name: "app".into(),
            package: "app".into(),
            fingerprint: plan.fingerprint("app", true),
            program: Some(program.into()),
            obstacle: obstacle.map(str::to_owned),
            ..CrateRecord::default()
        }
    }

    #[test]
    fn the_program_to_start_is_named_and_the_reason_if_it_has_no_hooks() {
        let users = tempfile::tempdir().expect("a folder");
        let plan = plan(&users.path().join("mlprof/functions"));
        let release = plan.target.join("release");
        std::fs::create_dir_all(release.join("examples")).expect("made");
        for name in ["app", "examples/shown"] {
            std::fs::write(release.join(name), "").expect("written");
        }
        std::fs::create_dir_all(users.path().join("release")).expect("made");
        std::fs::write(users.path().join("release/app"), "").expect("written");
        let records =
            ["release/app", "release/shown", "release/gone"].map(|it| record(&plan, it, None));
        let script = ["sh".into(), "run.sh".into()];
        for has_succeeded in [true, false] {
            let said = lines(&script, has_succeeded, users.path(), &plan, &records).join("\n");
            assert!(said.contains(r#"start "$CARGO_TARGET_DIR/release/app" instead of"#), "{said}");
            assert!(said.contains("release/app, which has no hooks"), "{said}");
            assert!(said.contains("release/examples/shown, which does not exist"), "{said}");
            assert!(!said.contains("gone"), "{said}");
        }
        let static_program = [record(&plan, "release/app", Some("it is static"))];
        let said = lines(&script, true, users.path(), &plan, &static_program).join("\n");
        assert!(said.ends_with("\n  app: it is static"), "{said}");
        let cargo = ["cargo".into(), "build".into()];
        let said = lines(&cargo, true, users.path(), &plan, &records).join("\n");
        assert!(said.ends_with("and run them"), "{said}");
        assert_eq!(lines(&cargo, false, users.path(), &plan, &records), [""; 0]);
        assert_eq!(lines(&script, false, users.path(), &plan, &[]), [""; 0]);
    }
}
