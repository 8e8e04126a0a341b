//! Report sections of threads, names and modules.

use mlprof_report::internals::sections::Content;
use mlprof_report::internals::table::{Table, count, markup, seconds, share, table, words};

use super::cells::{ACTIVITIES, add_below, bar, ns, part_of, share_of};
use super::names::name;
use crate::analysis::Analysis;
use crate::answers::{ModuleTimes, NameTimes, ThreadTimes};

pub(super) fn add(content: &mut Vec<Content>, analysis: &Analysis) {
    add_below(content, "names", "By name", names(&analysis.names));
    add_below(content, "modules", "By module", modules(&analysis.modules));
    add_below(content, "threads", "Threads", threads(&analysis.threads));
}

fn threads(threads: &[ThreadTimes]) -> Table {
    let caption = "What each thread did, from the first to the last step";
    let table = table!(caption, threads, |thread| {
        let ThreadTimes { window_ns, busy_ns, idle_ns, .. } = *thread;
        let (device, data) = (thread.waiting_for_device_ns, thread.waiting_for_data_ns);
        words("Thread", "Its name") => name(&thread.thread),
        // The colours are those of the steps' bars, in which busy time is mostly ops.
        markup("Parts", "The window: busy, waiting, idle") =>
            bar([(1, busy_ns), (6, device), (0, data), (4, idle_ns)]),
        seconds("Busy", "Something is recorded, and it is no waiting").bar() =>
            part_of(busy_ns, window_ns),
        share("Busy, share", "Of the window").on_page() => share_of(busy_ns, window_ns),
        seconds("Waiting for device", "In calls that wait for it").bar() =>
            part_of(device, window_ns),
        seconds("Waiting for data", "The loop, for its batches").bar() => part_of(data, window_ns),
        seconds("Idle", "Nothing is recorded").bar() => part_of(idle_ns, window_ns),
    });
    let mut legend = ACTIVITIES;
    (legend[1], legend[4]) = ("busy", "idle");
    table.kept_by("Busy").legend(legend)
}

fn names(names: &[NameTimes]) -> Table {
    let caption =
        "All of a name on all threads; self times add up to the time that threads were not idle";
    let table = table!(caption, names, |row| {
        words("Name", "As the trace calls it") => name(&row.name),
        words("Category", "As the trace calls it, of HIP's calls with its name") =>
            row.category_text(),
        seconds("Self", "Without what is inside").bar() => ns(row.self_ns),
        seconds("Total", "With what is inside").bar() => ns(row.total_ns),
        seconds("Device", "What devices did that was launched in it").bar().optional() =>
            ns(row.device_ns),
        count("Calls", "How often") => row.calls,
    });
    table.sorted_by("Self").kept_by("Self")
}

fn modules(modules: &[ModuleTimes]) -> Table {
    let table = table!("Modules of the model", modules, |row| {
        words("Module", "Its path in the model") => name(&row.module),
        seconds("Self", "Forward and backward, without modules inside").bar() => ns(row.self_ns),
        seconds("Of it backward", "Known by the arrows from forward ops").bar() =>
            ns(row.backward_ns),
        seconds("Total", "Forward, with modules inside").bar() => ns(row.total_ns),
        seconds("Device", "What devices did for it").bar().optional() => ns(row.device_ns),
        count("Calls", "How often it ran forward") => row.calls,
    });
    table.sorted_by("Self").kept_by("Self")
}
