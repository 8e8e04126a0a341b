//! Tables of a trace with their columns.

use super::{Column, Kind, Table, column, integer, text};

const RANK: Column = integer("rank", "rank of the process");
const CYCLE: Column = integer("cycle", "recording cycle");
const STEP: Column = integer("step", "step number");

/// Slices, ordered by start.
pub const SLICES: Table = Table {
    name: "slices",
    about: "events with a duration, ordered by start",
    columns: &[
        RANK,
        CYCLE,
        integer("step", "step in which the slice began").optional(),
        integer("id", "slice id, unique in the file, ordered by start").delta(),
        integer("parent_id", "id of the enclosing slice").optional().plain(),
        integer("track_id", "track of the slice: tracks.track_id"),
        integer("ts", "start of the slice, in nanoseconds of trace time").delta(),
        integer("dur", "duration in nanoseconds, with nested slices; self times are in ops.self and \
                        modules.self").noise(),
        integer("depth", "number of enclosing slices"),
        text("category", "Kineto category"),
        text("name", "name of the event"),
        integer("stack_id", "stack of names around the slice: stacks.stack_id"),
        text("module", "module to which the slice belongs").optional(),
        text(
            "phase",
            "waiting for data, forward, backward, collectives or optimizer; device work has the phase of its \
             launch",
        )
        .optional(),
        text(
            "work",
            "kind of work: compute, communication or memory for device work; communication for actions in \
             which ranks wait for each other",
        )
        .optional(),
        text(
            "collective",
            "operation and group of ranks, if each rank waits for all others in the slice",
        )
        .optional(),
        integer("correlation", "correlation id of a launch and its device work").optional().delta(),
        text("shapes", "input shapes as JSON").optional(),
        integer("flops", "floating-point operations").optional(),
        integer("bytes", "number of bytes moved").optional(),
        integer("arg_set_id", "additional arguments: args.arg_set_id").optional().delta(),
    ],
};

/// Nesting of slices by name.
pub const STACKS: Table = Table {
    name: "stacks",
    about: "stacks of nested slices, by name",
    columns: &[
        RANK,
        CYCLE,
        integer("stack_id", "stack id, unique in the file").delta(),
        integer("parent_id", "stack_id of the stack without its innermost name").optional().delta(),
        text("name", "innermost name"),
        integer("depth", "number of enclosing names"),
        text("path", "names from outermost to innermost, separated by ;, at most 16"),
    ],
};

/// Threads and streams.
pub const TRACKS: Table = Table {
    name: "tracks",
    about: "threads and device streams",
    columns: &[
        RANK,
        CYCLE,
        integer("track_id", "track id, unique in the file"),
        text("kind", "thread, stream or other"),
        text("name", "name of the track"),
        integer("upid", "process: processes.upid"),
        integer("pid", "process id, or device number").optional(),
        integer("tid", "thread id, or stream number").optional(),
        integer("device", "device of the stream").optional(),
        integer("stream", "stream number").optional(),
        integer("parent_id", "track whose slices overlap with those of this track").optional(),
    ],
};

/// Threads.
pub const THREADS: Table = Table {
    name: "threads",
    about: "threads",
    columns: &[
        RANK,
        CYCLE,
        integer("utid", "track: tracks.track_id"),
        integer("upid", "process: processes.upid"),
        integer("tid", "thread id").optional(),
        text("name", "name of the thread"),
        integer("is_main_thread", "1 if the thread id equals the process id, otherwise 0"),
    ],
};

/// Readings of the machine's clocks.
pub const CLOCKS: Table = Table {
    name: "clocks",
    about: "readings of the machine's clocks, which align the times of several ranks",
    columns: &[
        RANK,
        CYCLE,
        integer("ts", "time of the reading, in nanoseconds of trace time"),
        integer("realtime", "wall clock, in nanoseconds of Unix time"),
        integer("monotonic", "monotonic clock, in nanoseconds").optional(),
        integer("error", "uncertainty of ts, in nanoseconds"),
    ],
};

/// Processes and devices.
pub const PROCESSES: Table = Table {
    name: "processes",
    about: "processes, and devices, which traces list as processes",
    columns: &[
        RANK,
        CYCLE,
        integer("upid", "process id, unique in the file"),
        integer("pid", "process id of the operating system").optional(),
        text("name", "name of the process"),
        text("labels", "label in the trace viewer, such as CPU or GPU 0"),
    ],
};

/// Additional arguments of slices.
pub const ARGS: Table = Table {
    name: "args",
    about: "additional arguments of slices",
    columns: &[
        RANK,
        CYCLE,
        integer("arg_set_id", "slices.arg_set_id").delta(),
        text("flat_key", "name of the argument without array indices"),
        text("key", "name of the argument"),
        integer("int_value", "value, if it is an integer").optional(),
        text("string_value", "value, if it is a text").optional(),
        column("real_value", Kind::Real, "value, if it is a floating-point number").optional(),
    ],
};

/// Flow arrows between slices.
pub const FLOWS: Table = Table {
    name: "flows",
    about: "flow arrows from slice to slice",
    columns: &[
        RANK,
        CYCLE,
        integer("id", "flow id, unique in the file").delta(),
        integer("slice_out", "slice at the start of the arrow: slices.id").delta(),
        integer("slice_in", "slice at the end of the arrow: slices.id").delta(),
        text("category", "fwdbwd: forward to backward op; ac2g: launch to device work; other"),
    ],
};

/// Counters over time.
pub const COUNTERS: Table = Table {
    name: "counters",
    about: "counters over time",
    columns: &[
        RANK,
        CYCLE,
        integer("id", "id of the value, unique in the file").delta(),
        integer("ts", "time of the value, in nanoseconds of trace time").delta(),
        integer("upid", "process: processes.upid"),
        text("name", "name of the counter"),
        column("value", Kind::Real, "value of the counter"),
    ],
};

/// Steps.
pub const STEPS: Table = Table {
    name: "steps",
    about: "steps",
    columns: &[
        RANK,
        CYCLE,
        STEP,
        text("stage", "fit, validate, test or predict").optional(),
        integer("ts", "start of the step, in nanoseconds of trace time").delta(),
        integer("dur", "duration without recording pauses, in nanoseconds"),
        integer("waiting_for_data", "time in which the loop waited for data, in nanoseconds"),
    ],
};

/// Uninterrupted parts of steps.
pub const STEP_PARTS: Table = Table {
    name: "step_parts",
    about: "uninterrupted parts of steps; a step with an interruption, such as a validation, has several",
    columns: &[
        RANK,
        CYCLE,
        STEP,
        integer("ts", "start of the part, in nanoseconds of trace time").delta(),
        integer("dur", "duration of the part, in nanoseconds"),
    ],
};

const STRETCH: [Column; 4] = [
    RANK,
    CYCLE,
    integer("ts", "start of the interval, in nanoseconds of trace time").delta(),
    integer("dur", "duration of the interval, in nanoseconds"),
];

/// Window that the device results cover.
pub const WINDOWS: Table = Table {
    name: "windows",
    about: "time window of the device results, without pauses: from the first to the last step, or the whole \
            trace without steps",
    columns: &STRETCH,
};

/// Recording pauses.
pub const PAUSES: Table = Table {
    name: "pauses",
    about: "recording pauses, such as for a validation within an epoch",
    columns: &STRETCH,
};

/// Consecutive actions that steps consist of.
pub const STAGES: Table = Table {
    name: "stages",
    about: "top-level actions of steps; the dur of a step's rows add up to its duration",
    columns: &[
        RANK,
        CYCLE,
        STEP,
        integer("ord", "order of the first calls, from 0; the rest of the step comes last"),
        text("action", "action; empty for the rest of the step"),
        integer("dur", "total duration of the calls, in nanoseconds"),
    ],
};

/// Step stages that are comparable between ranks.
pub const PHASES: Table = Table {
    name: "phases",
    about: "phases of steps, comparable between ranks, to find slow ranks; the dur of a step's rows add up to \
            its duration",
    columns: &[
        RANK,
        CYCLE,
        STEP,
        text("stage", "fit, validate, test or predict").optional(),
        integer("ord", "order of the phases, from 0; the same in every step of every rank"),
        text(
            "phase",
            "waiting for data, forward, backward, device work, collectives, optimizer or other",
        ),
        integer("waits", "1 if ranks wait for each other in the phase, otherwise 0"),
        integer("dur", "duration of the phase, in nanoseconds"),
    ],
};

/// Sums per step and name, small enough for a fleet to keep for every run.
pub const OPS: Table = Table {
    name: "ops",
    about: "sums per step and name, small enough to keep for every run of a fleet",
    columns: &[
        RANK,
        CYCLE,
        integer("step", "step in which the slices began").optional(),
        text("category", "Kineto category"),
        text("name", "name of the event"),
        text("work", "kind of work, as in slices").optional(),
        integer("n", "number of calls"),
        integer("sum", "inclusive time in nanoseconds; nested calls of the same name count once"),
        integer("self", "self time, in nanoseconds"),
        integer("min", "shortest call, in nanoseconds"),
        integer("max", "longest call, in nanoseconds"),
        integer(
            "device",
            "device time of directly launched work, without work of nested ops, in nanoseconds",
        ),
    ],
};

/// Sums per step and module.
pub const MODULES: Table = Table {
    name: "modules",
    about: "sums per step and module of the model",
    columns: &[
        RANK,
        CYCLE,
        integer("step", "step in which the slices began").optional(),
        text("module", "module path"),
        integer("n", "number of forward calls"),
        integer("self", "host self time with backward ops, in nanoseconds"),
        integer("device", "device time of the work launched in the self time, in nanoseconds"),
    ],
};

/// Metadata of each process.
pub const RANKS: Table = Table {
    name: "ranks",
    about: "processes that recorded a cycle",
    columns: &[
        RANK,
        CYCLE,
        integer("world_size", "number of ranks in the job"),
        text("host", "host name of the machine").optional(),
        text("boot_id", "boot id of the machine; ranks with the same id share a monotonic clock")
            .optional(),
        text("stage", "fit, validate, test or predict").optional(),
        integer("base_ns", "Unix time at zero of trace time, in nanoseconds"),
        integer("dropped", "number of events dropped during recording"),
        integer(
            "not_understood",
            "number of skipped events, which are not slices with a time and a track",
        ),
        text("cut_short", "reason for a missing end of the trace").optional(),
        integer("events", "number of events in the file, including skipped events").optional(),
    ],
};

/// All tables.
pub const TABLES: [Table; 18] = [
    SLICES, STACKS, TRACKS, THREADS, PROCESSES, ARGS, FLOWS, COUNTERS, STEPS, STEP_PARTS, WINDOWS,
    PAUSES, STAGES, PHASES, OPS, MODULES, CLOCKS, RANKS,
];
