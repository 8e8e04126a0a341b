//! HTML of the run's properties at the head of a report.

use std::fmt::Write;

use super::text;
use crate::frameworks;
use crate::number::{bytes, duration, grouped, share};
use crate::{Machine, MachineDevice, Report, Setting};

/// Names of the facts that the header of a run shows if all of its reports agree.
pub(super) const SHARED: [&str; 7] =
    ["Started", "Build", "Machine", "Device", "Devices", "Framework", "Start-up"];

/// Returns the titles of a page's reports: program, profiler and stage, as far as they are known.
/// The start time is added to equal titles, or a number if these are also equal.
pub(super) fn titles(reports: &[Report]) -> Vec<String> {
    let with_program = |report: &Report| match &report.header().program {
        Some(program) => format!("{} · {}", text::name(program, 80), title(report)),
        None => title(report),
    };
    let mut titles: Vec<String> = reports.iter().map(with_program).collect();
    let began = |report: &Report| report.header().started_at.time_of_day();
    for extra in [began, |_: &Report| String::new()] {
        let before = titles.clone();
        let is_double = |title: &String| before.iter().filter(|other| *other == title).count() > 1;
        for (index, title) in titles.iter_mut().enumerate().filter(|(_, title)| is_double(title)) {
            let number = before[..=index].iter().filter(|other| *other == title).count();
            let extra = extra(&reports[index]);
            let extra = if extra.is_empty() { number.to_string() } else { extra };
            let _ = write!(title, " · {extra}");
        }
    }
    titles
}

/// Returns a title such as `Simple · fit`, with the rank if there are several.
pub(super) fn title(report: &Report) -> String {
    let header = report.header();
    let mut title = report.kind().to_owned();
    if let Some(stage) = header.stage {
        // Writing into a string cannot fail, so these results are ignored.
        let _ = write!(title, " · {stage}");
    }
    if let Some(rank) = header.rank_of_several() {
        let _ = write!(title, " · rank {rank}");
    }
    title
}

/// Writes the properties of a report that the header of its run does not show, and the notes.
pub(super) fn write(
    html: &mut String,
    report: &Report,
    has_fact: impl Fn(&(&'static str, String)) -> bool,
    has_note: impl Fn(&String) -> bool,
) {
    let mut facts = facts(report);
    facts.retain(|fact| !has_fact(fact));
    write_facts(html, &facts);
    let settings = &report.header().settings;
    if !settings.is_empty() {
        let setting = |setting: &Setting| {
            format!("{} {}", text::name(&setting.name, 80), text::name(&setting.value, 160))
        };
        let settings: Vec<_> = settings.iter().map(setting).collect();
        let _ = write!(html, "<p class=quiet>Settings: {}.</p>", settings.join(" · "));
    }
    let notes = notes(report);
    notes.iter().filter(|note| !has_note(note)).for_each(|note| html.push_str(note));
}

/// Writes facts as a list. Writes no HTML without facts.
pub(super) fn write_facts(html: &mut String, facts: &[(&str, String)]) {
    if facts.is_empty() {
        return;
    }
    html.push_str("<dl class=facts>");
    for (name, value) in facts {
        let _ = write!(html, "<div><dt>{name}<dd>{value}</div>");
    }
    html.push_str("</dl>");
}

/// Returns the running actions and the notes of a report as HTML.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let open = report.open().iter().take(20).map(|open| {
        format!(
            "<p class=note>{} is still running on thread {}, for {}.</p>",
            text::name(&open.action, 160),
            text::name(&open.thread, 160),
            duration(open.elapsed_seconds)
        )
    });
    let notes = report.header().notes.iter();
    let notes = notes.map(|note| format!("<p class=note>{}</p>", text::sentence(note)));
    open.chain(notes).collect()
}

/// Returns the properties of a report and its run, with their names.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let header = report.header();
    let mut facts = Vec::new();
    let mut fact = |name: &'static str, value: String| facts.push((name, value));
    fact("Started", format!("{} UTC", header.started_at.date_and_time()));
    fact("Wall time", duration(header.wall_seconds));
    if header.world_size > 1 {
        fact("Rank", format!("{} of {}", header.rank, header.world_size));
    }
    if let Some(build) = &header.build {
        let level = text::name(&build.opt_level, 20);
        let checks = if build.debug_assertions { ", with debug assertions" } else { "" };
        fact("Build", format!("opt-level {level}{checks}"));
    }
    if let Some(machine) = &header.machine {
        fact("Machine", written(machine));
        if !machine.devices.is_empty() {
            fact(if machine.devices.len() == 1 { "Device" } else { "Devices" }, devices(machine));
        }
    }
    if let Some(frameworks) = frameworks::in_words(header) {
        fact("Framework", text::name(&frameworks, 200));
    }
    if let Some(startup) = &header.startup {
        fact("Start-up", duration(startup.total_seconds));
    }
    let overhead = &header.overhead;
    if overhead.scopes > 0 {
        let total = overhead.total_seconds();
        let part = if header.wall_seconds > 0.0 {
            format!(" ({} of the wall time)", share(total, header.wall_seconds))
        } else {
            String::new()
        };
        let each = duration(overhead.seconds_per_scope);
        fact(
            "Profiler overhead",
            format!("{} scopes × {each} = {}{part}", grouped(overhead.scopes), duration(total)),
        );
    }
    match report {
        Report::Simple(report) => {
            if let Some(waiting) = &report.data_waiting {
                let of = if waiting.epoch_seconds.is_some() { "epochs" } else { "wall time" };
                let seconds = duration(waiting.waiting_seconds);
                fact(
                    "Waiting for data",
                    format!("{seconds}, {:.2} % of {of}", 100.0 * waiting.share),
                );
            }
        }
        Report::Tensor(report) => {
            let steps = match report.steps {
                0 => "none: the recorded events belong to no step".to_owned(),
                steps => format!("{} of {}", grouped(report.recorded_steps), grouped(steps)),
            };
            fact("Recorded steps", steps);
            if let Some(schedule) = &report.schedule {
                fact(
                    "Schedule",
                    format!(
                        "wait {}, warm-up {}, active {}, repeat {}",
                        schedule.wait, schedule.warmup, schedule.active, schedule.repeat
                    ),
                );
            }
            let dropped = &report.dropped;
            let lost = dropped.events + dropped.memory + dropped.device;
            if lost > 0 {
                fact("Dropped events", grouped(lost));
            }
        }
        _ => {}
    }
    facts
}

/// Formats the devices, such as `0: NVIDIA H100 80GB HBM3, 79.1 GiB`. The number is omitted for a
/// single device.
fn devices(machine: &Machine) -> String {
    let device = |device: &MachineDevice| {
        let number = match machine.devices.len() {
            1 => String::new(),
            _ => format!("{}: ", device.number),
        };
        format!("{number}{}, {}", text::name(&device.name, 80), bytes(device.memory_bytes))
    };
    machine.devices.iter().take(16).map(device).collect::<Vec<_>>().join("; ")
}

/// Formats the known properties of the machine, such as `Some CPU, 8 cores, 16.0 GiB, linux
/// x86_64`.
fn written(machine: &Machine) -> String {
    let cpu = machine.cpu.as_deref().map(|cpu| text::name(cpu, 80));
    let cores = machine.cores.map(|cores| match cores {
        1 => "1 core".to_owned(),
        cores => format!("{} cores", grouped(cores)),
    });
    let memory = machine.memory_bytes.map(bytes);
    let system = Some(text::name(&machine.system, 40));
    let known = [cpu, cores, memory, system].into_iter().flatten().filter(|text| !text.is_empty());
    known.collect::<Vec<_>>().join(", ")
}
