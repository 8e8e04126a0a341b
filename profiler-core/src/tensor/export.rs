//! Export of a finished cycle.

use std::io;
#[cfg(feature = "trace-formats")]
use std::io::{BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::export_settings::{ExportSettings, unix_nanoseconds};
#[cfg(feature = "trace-formats")]
use super::reparse;
use super::{Cycle, TensorProfiler, TraceFormat};
#[cfg(feature = "trace-formats")]
use crate::output::write_file;
use crate::report::internals::Missing;
use crate::report::number::grouped;
#[cfg(feature = "trace-formats")]
use mlprof_analysis::{Trace, kineto, perfetto, xplane};
use mlprof_trace::flame::{self, FlameGraph, FlameMetric};

impl TensorProfiler {
    /// Passes a finished cycle to the user's handler and writes the requested files.
    pub(super) fn hand_over(&self, cycle: &Cycle) {
        let export = Export { profiler: self, cycle, time: unix_nanoseconds() };
        let settings = self.settings.export;
        let writes_trace = self.settings.exports_trace && self.settings.on_trace_ready.is_none();
        if let Some(handler) = &self.settings.on_trace_ready
            && catch_unwind(AssertUnwindSafe(|| handler(cycle))).is_err()
        {
            export.complain("on_trace_ready panicked: its unwritten data is lost");
        }
        if writes_trace {
            settings.formats.each().for_each(|format| export.trace(format));
        }
        if export.path("json").is_none() {
            if writes_trace {
                self.note("no trace was written, because it needs a directory: set dirpath");
            }
            let ExportSettings { flame, parquet, memory_timeline, memory_snapshot, .. } = settings;
            if flame || parquet || memory_timeline || memory_snapshot {
                export.complain(
                    "flame graphs, tables, memory timelines and snapshots need a directory: set \
                     dirpath",
                );
            }
            return;
        }
        #[cfg(feature = "parquet")]
        if settings.parquet {
            export.tables();
        }
        if settings.flame {
            export.flame_graphs();
        }
        if settings.memory_timeline {
            export.memory_timeline();
        }
        if settings.memory_snapshot {
            export.memory_snapshot();
        }
    }
}

/// Writer of one cycle's files. A write error never ends the run.
struct Export<'cycle> {
    profiler: &'cycle TensorProfiler,
    cycle: &'cycle Cycle,
    /// Unix time in nanoseconds, which makes the file names of each cycle unique.
    time: u128,
}

impl Export<'_> {
    /// Returns the path of a file, if a directory is set.
    fn path(&self, ending: &str) -> Option<PathBuf> {
        let ending = format!("{}.{ending}", self.time);
        self.profiler.output.part_path(self.cycle.stage, &self.cycle.run, &ending)
    }

    /// Writes a file, if a directory is set, and adds it to the list of files.
    fn file(&self, ending: &str, write: impl FnOnce(&Path) -> io::Result<()>) {
        let Some(path) = self.path(ending) else { return };
        self.written(path, write);
    }

    /// Writes a file at `path` and adds it to the list of files.
    fn written(&self, path: PathBuf, write: impl FnOnce(&Path) -> io::Result<()>) {
        let written = catch_unwind(AssertUnwindSafe(|| write(&path)));
        match written.unwrap_or_else(|_| Err(io::Error::other("the writer panicked"))) {
            Ok(()) => {
                let mut control = self.profiler.control();
                let files = &mut control.top().files;
                // The tables of all cycles share one folder, which must be listed only once.
                if !files.contains(&path) {
                    files.push(path);
                }
            }
            Err(error) => {
                self.profiler.output.warn_of_missing(&path, &error);
                self.profiler.note(&format!("cannot write {}: {error}", path.display()));
            }
        }
    }

    /// Adds a note to the report of the stage and prints it on standard error the first time.
    fn complain(&self, note: &str) {
        let is_known = self.profiler.control().top().notes.iter().any(|known| known == note);
        if !is_known {
            crate::output::say(format_args!("warning: {note}. The run continues."));
            self.profiler.note(note);
        }
    }

    /// Reports, in the report and on standard error, that a file is missing because it would be
    /// empty.
    fn tell(&self, missing: Missing) {
        self.profiler.note(&missing.to_string());
        crate::report::internals::tell_missing(&self.profiler.output, &[missing]);
    }

    fn trace(&self, format: TraceFormat) {
        let ending = format.ending();
        match format {
            TraceFormat::Json => self.file(ending, |path| self.cycle.export_chrome_trace(path)),
            #[cfg(feature = "trace-formats")]
            TraceFormat::Pftrace => self.made_of_trace(ending, kineto::read, |trace, out| {
                let written = perfetto::write(trace, out)?;
                if written.flows_left_out > 0 {
                    let (left_out, all) =
                        (written.flows_left_out, written.flows + written.flows_left_out);
                    self.profiler.note(&format!(
                        "{left_out} of {all} arrows are not in the .pftrace: they lead back in \
                         time, which Perfetto cannot show"
                    ));
                }
                Ok(())
            }),
            #[cfg(feature = "trace-formats")]
            TraceFormat::Xplane => {
                self.made_of_trace(ending, kineto::read_for_xprof, |trace, out| {
                    xplane::write(trace, out)
                })
            }
        }
    }

    /// Reads the trace with `read` and writes a converted file.
    #[cfg(feature = "trace-formats")]
    fn made_of_trace(
        &self,
        ending: &str,
        read: reparse::ReadTrace,
        write: impl FnOnce(&Trace, &mut dyn Write) -> io::Result<()>,
    ) {
        if self.path(ending).is_none() {
            return;
        }
        let trace = match catch_unwind(AssertUnwindSafe(|| reparse::trace(self.cycle, read))) {
            Ok(Ok(None)) => {
                let note = format!("there is no .{ending}: nothing was recorded for it");
                return self.complain(&note);
            }
            Ok(Ok(Some(trace))) => Ok(trace),
            Ok(Err(error)) => Err(error),
            Err(_) => return self.complain(&format!("cannot make the .{ending}: it panicked")),
        };
        self.file(ending, |path| {
            let trace = trace?;
            write_file(path, |file| {
                let mut buffered = BufWriter::new(file);
                write(&trace, &mut buffered)?;
                buffered.flush()
            })
        });
    }

    #[cfg(feature = "parquet")]
    fn tables(&self) {
        use std::sync::PoisonError;

        // All ranks share one folder, so its path must not contain the rank.
        let mut run = self.cycle.run.clone();
        (run.rank, run.world_size) = (0, 1);
        let first = self.profiler.output.part_path(self.cycle.stage, &run, "parquet");
        let Some(first) = first else { return };
        let (folder, is_new) = {
            let folders = self.profiler.tables.lock();
            folders.unwrap_or_else(PoisonError::into_inner).of(&first, self.cycle.number)
        };
        let trace =
            match catch_unwind(AssertUnwindSafe(|| reparse::trace(self.cycle, kineto::read))) {
                Ok(Ok(None)) => return self.tell(Missing::Tables),
                Ok(Ok(Some(trace))) => Ok(trace),
                Ok(Err(error)) => Err(error),
                Err(_) => return self.complain("cannot make the tables: it panicked"),
            };
        self.written(folder, |folder| super::tables::write(self.cycle, &trace?, folder, is_new));
    }

    fn flame_graphs(&self) {
        let Ok(graph) = catch_unwind(AssertUnwindSafe(|| FlameGraph::of(self.cycle))) else {
            return self.complain("cannot make the flame graph: it panicked");
        };
        if !FlameMetric::ALL.into_iter().any(|metric| graph.has(metric)) {
            return self.tell(Missing::FlameGraphs);
        }
        if graph.cut() > 0 {
            self.profiler.note(&format!(
                "{} calls are nested deeper than flame graphs and folded stacks go; below that \
                 level, all callees of a frame are one frame, {}",
                grouped(graph.cut()),
                flame::CUT
            ));
        }
        for metric in FlameMetric::ALL {
            if !graph.has(metric) {
                continue;
            }
            let name = metric.as_str();
            self.file(&format!("{name}.folded"), |path| graph.export_stacks(path, metric));
            #[cfg(feature = "flame")]
            self.file(&format!("{name}.svg"), |path| graph.export_svg(path, metric));
        }
    }

    fn memory_timeline(&self) {
        let Ok(timeline) = catch_unwind(AssertUnwindSafe(|| self.cycle.memory_timeline())) else {
            return self.complain("cannot make the memory timeline: it panicked");
        };
        if timeline.devices.is_empty() {
            return self.tell(Missing::MemoryTimeline);
        }
        self.file("memory.json", |path| timeline.export_json(path));
        self.file("memory.html", |path| timeline.export_html(path));
    }

    fn memory_snapshot(&self) {
        let has_memory = self.cycle.tracks().iter().any(|track| track.memory_event_count() > 0);
        if has_memory {
            self.file("memory.pickle", |path| self.cycle.export_memory_snapshot(path));
        } else {
            self.tell(Missing::MemoryTimeline);
        }
    }
}
