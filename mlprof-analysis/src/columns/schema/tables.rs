//! Tables of a trace with their columns.

use super::{Column, Kind, Table, column, integer, text};

const RANK: Column = integer("rank", "the process among those that train together");
const CYCLE: Column = integer("cycle", "the recorded cycle");
const STEP: Column = integer("step", "the step's number");

/// Slices, ordered by start.
pub const SLICES: Table = Table {
    name: "slices",
    about: "everything that has a duration, by its beginning",
    columns: &[
        RANK,
        CYCLE,
        integer("step", "the step in which it began").optional(),
        integer("id", "its number in the file, by its beginning").delta(),
        integer("parent_id", "the slice directly around it").optional().plain(),
        integer("track_id", "where it stands: tracks.track_id"),
        integer("ts", "when it began, in nanoseconds of the trace's time").delta(),
        integer("dur", "how long it took, in nanoseconds; without what is inside: ops.self, modules.self").noise(),
        integer("depth", "how many slices are around it"),
        text("category", "what kind of thing it is, in Kineto's words"),
        text("name", "what happened"),
        integer("stack_id", "what it is inside of, by names: stacks.stack_id"),
        text("module", "the module that it belongs to").optional(),
        text(
            "phase",
            "waiting for data, forward, backward, collectives or optimizer; of device work its launch's",
        )
        .optional(),
        text(
            "work",
            "what kind of work it is: compute, communication or memory of a device; communication of an action in \
             which ranks wait for each other",
        )
        .optional(),
        text(
            "collective",
            "the operation and the group of ranks, where each of them waits for all others in it",
        )
        .optional(),
        integer("correlation", "what ties launches to what they launched").optional().delta(),
        text("shapes", "sizes of its inputs, as JSON").optional(),
        integer("flops", "floating-point operations").optional(),
        integer("bytes", "bytes moved").optional(),
        integer("arg_set_id", "what else is known: args.arg_set_id").optional().delta(),
    ],
};

/// Nesting of slices by name.
pub const STACKS: Table = Table {
    name: "stacks",
    about: "which slices are inside of which, by their names",
    columns: &[
        RANK,
        CYCLE,
        integer("stack_id", "its number in the file").delta(),
        integer("parent_id", "the stack without its innermost name").optional().delta(),
        text("name", "the innermost name"),
        integer("depth", "how many names are around it"),
        text("path", "the names from the outermost on, with ; between them; at most 16 of them"),
    ],
};

/// Threads and streams.
pub const TRACKS: Table = Table {
    name: "tracks",
    about: "threads, and streams of devices",
    columns: &[
        RANK,
        CYCLE,
        integer("track_id", "its number in the file"),
        text("kind", "thread, stream or other"),
        text("name", "what it is called"),
        integer("upid", "its process: processes.upid"),
        integer("pid", "its process's number, or its device's").optional(),
        integer("tid", "the thread's or stream's number").optional(),
        integer("device", "the device that it is of").optional(),
        integer("stream", "the stream that it is").optional(),
        integer("parent_id", "the track that its slices cross slices of").optional(),
    ],
};

/// Threads.
pub const THREADS: Table = Table {
    name: "threads",
    about: "threads",
    columns: &[
        RANK,
        CYCLE,
        integer("utid", "its track: tracks.track_id"),
        integer("upid", "its process: processes.upid"),
        integer("tid", "its own number").optional(),
        text("name", "what it is called"),
        integer("is_main_thread", "1 if its number is that of its process, else 0"),
    ],
};

/// Readings of the machine's clocks.
pub const CLOCKS: Table = Table {
    name: "clocks",
    about: "what the machine's clocks showed at some moments: what relates ranks' times",
    columns: &[
        RANK,
        CYCLE,
        integer("ts", "the moment, in nanoseconds of the trace's time"),
        integer("realtime", "the wall clock: nanoseconds of Unix time"),
        integer("monotonic", "the clock that nobody sets, in nanoseconds").optional(),
        integer("error", "by how much ts may be wrong, in nanoseconds"),
    ],
};

/// Processes and devices.
pub const PROCESSES: Table = Table {
    name: "processes",
    about: "processes, and devices, which stand as processes in traces",
    columns: &[
        RANK,
        CYCLE,
        integer("upid", "its number in the file"),
        integer("pid", "its own number").optional(),
        text("name", "what it is called"),
        text("labels", "what is said beside it: CPU, GPU 0"),
    ],
};

/// Additional arguments of slices.
pub const ARGS: Table = Table {
    name: "args",
    about: "what slices have besides",
    columns: &[
        RANK,
        CYCLE,
        integer("arg_set_id", "slices.arg_set_id").delta(),
        text("flat_key", "what it is"),
        text("key", "what it is"),
        integer("int_value", "a number").optional(),
        text("string_value", "a text").optional(),
        column("real_value", Kind::Real, "a number with a fraction").optional(),
    ],
};

/// Flow arrows between slices.
pub const FLOWS: Table = Table {
    name: "flows",
    about: "what led to what: arrows from slice to slice",
    columns: &[
        RANK,
        CYCLE,
        integer("id", "its number in the file").delta(),
        integer("slice_out", "where it begins: slices.id").delta(),
        integer("slice_in", "where it ends: slices.id").delta(),
        text(
            "category",
            "fwdbwd: forward to backward op; ac2g: launch to what was launched; other",
        ),
    ],
};

/// Counters over time.
pub const COUNTERS: Table = Table {
    name: "counters",
    about: "counters over time",
    columns: &[
        RANK,
        CYCLE,
        integer("id", "its number in the file").delta(),
        integer("ts", "when, in nanoseconds of the trace's time").delta(),
        integer("upid", "whose: processes.upid"),
        text("name", "what is counted"),
        column("value", Kind::Real, "how much"),
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
        integer("ts", "when it began, in nanoseconds of the trace's time").delta(),
        integer("dur", "how long it took without pauses of the recording, in nanoseconds"),
        integer("waiting_for_data", "how long of it the loop waited for data, in nanoseconds"),
    ],
};

/// Uninterrupted parts of steps.
pub const STEP_PARTS: Table = Table {
    name: "step_parts",
    about: "the parts of steps: several of a step that something interrupted, as a validation does",
    columns: &[
        RANK,
        CYCLE,
        STEP,
        integer("ts", "when the part began, in nanoseconds of the trace's time").delta(),
        integer("dur", "how long the part took, in nanoseconds"),
    ],
};

const STRETCH: [Column; 4] = [
    RANK,
    CYCLE,
    integer("ts", "when the stretch began, in nanoseconds of the trace's time").delta(),
    integer("dur", "the stretch's length, in nanoseconds"),
];

/// Window that the device results cover.
pub const WINDOWS: Table = Table {
    name: "windows",
    about: "the time that answers about devices count, without pauses: from the first to the last step, or the whole \
            trace if it has no steps",
    columns: &STRETCH,
};

/// Recording pauses.
pub const PAUSES: Table = Table {
    name: "pauses",
    about: "pauses of the recording, as it makes them for a validation within an epoch",
    columns: &STRETCH,
};

/// Consecutive actions that steps consist of.
pub const STAGES: Table = Table {
    name: "stages",
    about: "what steps are made of: the actions directly inside, whose dur add up to the step's",
    columns: &[
        RANK,
        CYCLE,
        STEP,
        integer("ord", "which of them it was first, from 0; the rest of the step is the last"),
        text("action", "the action; empty for the rest"),
        integer("dur", "how long all of its calls took, in nanoseconds"),
    ],
};

/// Step stages that are comparable between ranks.
pub const PHASES: Table = Table {
    name: "phases",
    about: "what steps of all ranks are made of, to see who holds the others up; their dur add up to the step's",
    columns: &[
        RANK,
        CYCLE,
        STEP,
        text("stage", "fit, validate, test or predict").optional(),
        integer("ord", "the order in which they run, from 0; the same in every step of every rank"),
        text(
            "phase",
            "waiting for data, forward, backward, device work, collectives, optimizer or other",
        ),
        integer("waits", "1 if ranks wait for each other in it, else 0"),
        integer("dur", "how long it took, in nanoseconds"),
    ],
};

/// Sums per step and name, small enough for a fleet to keep for every run.
pub const OPS: Table = Table {
    name: "ops",
    about: "sums per step and name, which a fleet can keep of every run",
    columns: &[
        RANK,
        CYCLE,
        integer("step", "the step in which they began").optional(),
        text("category", "what kind of thing it is"),
        text("name", "what happened"),
        text("work", "what kind of work it is, as in slices").optional(),
        integer("n", "how often"),
        integer(
            "sum",
            "how long together, what is inside of its like counted once, in nanoseconds",
        ),
        integer("self", "how long it was the innermost, in nanoseconds"),
        integer("min", "the shortest"),
        integer("max", "the longest"),
        integer(
            "device",
            "time on devices of what they launched and no op inside of them, in nanoseconds",
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
        integer("step", "the step in which they began").optional(),
        text("module", "the module"),
        integer("n", "how often its forward ran"),
        integer("self", "time of its own on threads, with its backward ops, in nanoseconds"),
        integer("device", "time on devices of what that launched, in nanoseconds"),
    ],
};

/// Metadata of each process.
pub const RANKS: Table = Table {
    name: "ranks",
    about: "the process that recorded a cycle",
    columns: &[
        RANK,
        CYCLE,
        integer("world_size", "how many train together"),
        text("host", "its machine").optional(),
        text("boot_id", "since when that runs: who has the same shares its monotonic clock")
            .optional(),
        text("stage", "fit, validate, test or predict").optional(),
        integer("base_ns", "nanoseconds of Unix time at the zero of the trace's time"),
        integer("dropped", "events that the recorder had no room for"),
        integer(
            "not_understood",
            "events that were left out, as no slices with a time and a place",
        ),
        text("cut_short", "why the end of the trace is missing, if it is").optional(),
        integer("events", "events of the file, whether they were left out or not").optional(),
    ],
};

/// All tables.
pub const TABLES: [Table; 18] = [
    SLICES, STACKS, TRACKS, THREADS, PROCESSES, ARGS, FLOWS, COUNTERS, STEPS, STEP_PARTS, WINDOWS,
    PAUSES, STAGES, PHASES, OPS, MODULES, CLOCKS, RANKS,
];
