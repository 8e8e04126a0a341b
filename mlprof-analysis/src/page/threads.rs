//! What threads, ops and modules took.

use mlprof_report::internals::sections::{Column, Content, Quantity, Table};

use super::cells::{ACTIVITIES, add_below, number, parts, seconds, share, table, words};
use crate::analysis::Analysis;
use crate::answers::{ModuleTimes, NameTimes, ThreadTimes};

pub(super) fn add(content: &mut Vec<Content>, analysis: &Analysis) {
    add_below(content, "names", "By name", names(&analysis.names));
    add_below(content, "modules", "By module", modules(&analysis.modules));
    add_below(content, "threads", "Threads", threads(&analysis.threads));
}

fn threads(threads: &[ThreadTimes]) -> Table {
    let columns = [
        Column::new("Thread", Quantity::Text, "Its name"),
        Column::new("Parts", Quantity::Parts, "The window: busy, waiting, idle"),
        Column::new("Busy", Quantity::Seconds, "Something is recorded, and it is no waiting").bar(),
        Column::new("Busy, share", Quantity::Share, "Of the window"),
        Column::new("Waiting for the device", Quantity::Seconds, "In calls that wait for it").bar(),
        Column::new("Waiting for data", Quantity::Seconds, "The loop, for its batches").bar(),
        Column::new("Idle", Quantity::Seconds, "Nothing is recorded").bar(),
    ];
    let rows = threads.iter().map(|thread| {
        let ThreadTimes { window_ns, busy_ns, idle_ns, .. } = *thread;
        let (device, data) = (thread.waiting_for_device_ns, thread.waiting_for_data_ns);
        vec![
            words(thread.thread.as_str()),
            // The colours are those of the steps' bars, where busy is mostly ops.
            parts([(1, busy_ns), (6, device), (0, data), (4, idle_ns)]),
            seconds(busy_ns),
            share(busy_ns, window_ns),
            seconds(device),
            seconds(data),
            seconds(idle_ns),
        ]
    });
    let mut legend = ACTIVITIES.to_vec();
    legend[1] = "busy";
    legend[4] = "idle";
    let caption = "What each thread did, from the first to the last step";
    let table = table(caption, columns, rows);
    Table { kept_by: Some(2), legend, ..table }
}

fn names(names: &[NameTimes]) -> Table {
    let columns = [
        Column::new("Name", Quantity::Text, "As the trace calls it"),
        Column::new(
            "Category",
            Quantity::Text,
            "As the trace calls it, of HIP's calls with its name",
        ),
        Column::new("Self", Quantity::Seconds, "Without what is inside").bar(),
        Column::new("Total", Quantity::Seconds, "With what is inside").bar(),
        Column::new("Device", Quantity::Seconds, "What devices did that was launched in it").bar(),
        Column::new("Calls", Quantity::Count, "How often"),
    ];
    let rows = names.iter().map(|row| {
        vec![
            words(row.name.as_str()),
            words(row.category_text()),
            seconds(row.self_ns),
            seconds(row.total_ns),
            seconds(row.device_ns),
            number(row.calls as f64),
        ]
    });
    let caption =
        "All of a name on all threads; self times add up to the time that threads were not idle";
    Table { sorted_by: Some(2), kept_by: Some(2), ..table(caption, columns, rows) }
}

fn modules(modules: &[ModuleTimes]) -> Table {
    let columns = [
        Column::new("Module", Quantity::Text, "Its path in the model"),
        Column::new("Self", Quantity::Seconds, "Forward and backward, without modules inside")
            .bar(),
        Column::new("Of it backward", Quantity::Seconds, "Known by the arrows from forward ops")
            .bar(),
        Column::new("Total", Quantity::Seconds, "Forward, with modules inside").bar(),
        Column::new("Device", Quantity::Seconds, "What devices did for it").bar(),
        Column::new("Calls", Quantity::Count, "How often it ran forward"),
    ];
    let rows = modules.iter().map(|row| {
        vec![
            words(row.module.as_str()),
            seconds(row.self_ns),
            seconds(row.backward_ns),
            seconds(row.total_ns),
            seconds(row.device_ns),
            number(row.calls as f64),
        ]
    });
    let table = table("Modules of the model", columns, rows);
    Table { sorted_by: Some(1), kept_by: Some(1), ..table }
}
