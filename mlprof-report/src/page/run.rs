//! HTML of the run's properties at the head of a report.

use std::fmt::Write;

use super::text;
use crate::frameworks;
use crate::number::{bytes, duration, grouped, share};
use crate::{Machine, MachineDevice, Report, Setting};

/// Returns the titles of a page's reports. The program is added if there are several programs. The
/// start time is added to equal titles, or a number if these are also equal.
pub(super) fn titles(reports: &[Report]) -> Vec<String> {
    let program = |report: &Report| report.header().program.clone();
    let has_several = reports.iter().any(|report| program(report) != program(&reports[0]));
    let with_program = |report: &Report| match program(report).filter(|_| has_several) {
        Some(program) => format!("{} · {}", text::name(&program, 80), title(report)),
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

/// Writes the run's properties as a list, and the notes.
pub(super) fn write(html: &mut String, report: &Report) {
    let header = report.header();
    html.push_str("<dl class=facts>");
    let mut fact = |name: &str, value: String| {
        let _ = write!(html, "<div><dt>{name}<dd>{value}</div>");
    };
    if let Some(program) = &header.program {
        fact("Program", text::name(program, 80));
    }
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
    html.push_str("</dl>");
    if !header.settings.is_empty() {
        let setting = |setting: &Setting| {
            format!("{} {}", text::name(&setting.name, 80), text::name(&setting.value, 160))
        };
        let settings: Vec<_> = header.settings.iter().map(setting).collect();
        let _ = write!(html, "<p class=quiet>Settings: {}.</p>", settings.join(" · "));
    }
    for open in report.open().iter().take(20) {
        let _ = write!(
            html,
            "<p class=note>{} is still running on thread {}, for {}.</p>",
            text::name(&open.action, 160),
            text::name(&open.thread, 160),
            duration(open.elapsed_seconds)
        );
    }
    for note in &header.notes {
        let _ = write!(html, "<p class=note>{}</p>", text::sentence(note));
    }
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
