//! Checks that a user who gets no results also gets the reason: in the report, in its JSON, and
//! once on standard error. Each reason has its own process, which this program starts.

mod scenes;

use std::process::{Command, Output};

/// Environment variable with the scene that a process plays.
const SCENE: &str = "MLPROF_TEST_SCENE";

fn main() {
    if let Ok(wanted) = std::env::var(SCENE) {
        let scene = scenes::all().into_iter().find(|scene| scene.name == wanted);
        return (scene.expect("a scene of that name").play)();
    }
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut failed = Vec::new();
    for scene in scenes::all() {
        let name = scene.name;
        if !filters.is_empty() && !filters.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let program = std::env::current_exe().expect("the path of this program");
        let played = Command::new(program).env(SCENE, name).output().expect("starts itself");
        let wrong = wrong_with(&scene, &played);
        println!("missing: {name}: {}", wrong.as_deref().unwrap_or("ok"));
        failed.extend(wrong.map(|_| name));
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Returns the output that a scene lacks, or that it printed too often.
fn wrong_with(scene: &scenes::Scene, played: &Output) -> Option<String> {
    let stdout = String::from_utf8_lossy(&played.stdout);
    let stderr = String::from_utf8_lossy(&played.stderr);
    let all = format!("\n--- standard output\n{stdout}--- standard error\n{stderr}");
    if !played.status.success() {
        return Some(format!("FAILED: {}{all}", played.status));
    }
    let (text, json) = stdout.split_once(scenes::JSON).unwrap_or_default();
    if scene.says.is_empty() {
        return stderr.contains("warning: ").then(|| format!("it complains of nothing{all}"));
    }
    for part in scene.says {
        let in_json = part.replace('"', "\\\"");
        let counts = [stderr.matches(part).count(), json.matches(&in_json).count()];
        let expected = if scene.is_delivered { [1, 1] } else { [0, 1] };
        if counts != expected || (scene.is_delivered && !text.contains(part)) {
            return Some(format!("{part:?} is {counts:?} times in standard error and JSON{all}"));
        }
    }
    None
}
