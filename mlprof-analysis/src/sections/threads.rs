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
    let caption = "Thread times from the first to the last step";
    let table = table!(caption, threads, |thread| {
        let ThreadTimes { window_ns, busy_ns, idle_ns, .. } = *thread;
        let (device, data) = (thread.waiting_for_device_ns, thread.waiting_for_data_ns);
        words("Thread", "Thread name") => name(&thread.thread),
        // The colours are those of the steps' bars, in which busy time is mostly ops.
        markup("Parts", "Busy, waiting and idle time in the window") =>
            bar([(1, busy_ns), (6, device), (0, data), (4, idle_ns)]),
        seconds("Busy", "Time with recorded slices, without waiting").bar() =>
            part_of(busy_ns, window_ns),
        share("Busy, share", "Share of the window").on_page() => share_of(busy_ns, window_ns),
        seconds("Waiting for device", "Time in calls that wait for the device").bar() =>
            part_of(device, window_ns),
        seconds("Waiting for data", "Time in which the loop waited for batches").bar() => part_of(data, window_ns),
        seconds("Idle", "Time without recorded slices").bar() => part_of(idle_ns, window_ns),
    });
    let mut legend = ACTIVITIES;
    (legend[1], legend[4]) = ("busy", "idle");
    table.kept_by("Busy").legend(legend)
}

fn names(names: &[NameTimes]) -> Table {
    let caption =
        "Times by name on all threads; self times add up to the threads' time without idle time";
    let table = table!(caption, names, |row| {
        words("Name", "Name in the trace") => name(&row.name),
        words("Category", "Category in the trace; HIP calls have their own categories") =>
            row.category_text(),
        seconds("Self", "Time without nested slices").adds_up().bar() => ns(row.self_ns),
        seconds("Total", "Time with nested slices").bar() => ns(row.total_ns),
        seconds("Device", "Device time of the work launched in these slices").bar().optional() =>
            ns(row.device_ns),
        count("Calls", "Number of calls").adds_up() => row.calls,
    });
    table.sorted_by("Self").kept_by("Self")
}

fn modules(modules: &[ModuleTimes]) -> Table {
    let table = table!("Modules of the model", modules, |row| {
        words("Module", "Module path in the model") => name(&row.module),
        seconds("Self", "Forward and backward time without nested modules").adds_up().bar() =>
            ns(row.self_ns),
        seconds("Backward", "Backward time, assigned by the flow arrows from forward ops").bar() =>
            ns(row.backward_ns),
        seconds("Total", "Forward time with nested modules").bar() => ns(row.total_ns),
        seconds("Device", "Device time of the module's work").bar().optional() => ns(row.device_ns),
        count("Calls", "Number of forward calls").adds_up() => row.calls,
    });
    table.sorted_by("Self").kept_by("Self")
}
