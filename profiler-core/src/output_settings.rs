//! Settings for the destination of reports, shared by all profilers.

/// Generates the output settings of a profiler with an `Output` field. `$kind` is the profiler's
/// kind in one word. `$beside` describes other files in the directory.
macro_rules! output_settings {
    ($kind:literal, $beside:literal) => {
        #[doc = concat!(
            "Writes reports to files in this directory, if a [`filename`](Self::filename) is set",
            $beside,
            "."
        )]
        #[must_use]
        pub fn dirpath(mut self, dirpath: impl Into<std::path::PathBuf>) -> Self {
            self.output = self.output.dirpath(dirpath);
            self
        }

        /// Writes reports to `{stage}-{filename}[-{rank}].txt`: see [`Output`](crate::Output).
        #[must_use]
        pub fn filename(mut self, filename: impl Into<String>) -> Self {
            self.output = self.output.filename(filename);
            self
        }

        /// Enables or disables the search for avoidable time costs at the end of the stage. It is
        /// enabled by default: see [`Output::findings`](crate::Output::findings). Needs the feature
        /// `findings`.
        #[cfg(feature = "findings")]
        #[must_use]
        pub fn findings(mut self, looks_for_them: bool) -> Self {
            self.output = self.output.findings(looks_for_them);
            self
        }

        /// Enables or disables an HTML page for each report, `{stage}-{filename}[-{rank}].html` in
        /// the directory of the report files. It is one file that needs no network. Needs the
        /// feature `html`.
        #[cfg(feature = "html")]
        #[must_use]
        pub fn html(mut self, writes: bool) -> Self {
            self.output = self.output.html(writes);
            self
        }

        /// Shows or hides table rows below 0.1 % of the wall time on the console. By default these
        /// rows are hidden and counted. See [`Output::all_rows`](crate::Output::all_rows).
        #[must_use]
        pub fn all_rows(mut self, prints_all: bool) -> Self {
            self.output = self.output.all_rows(prints_all);
            self
        }

        /// Replaces all previous output settings.
        #[must_use]
        pub fn output_to(mut self, output: crate::Output) -> Self {
            self.output = output.of_kind($kind);
            self
        }
    };
}
pub(crate) use output_settings;

/// Generates the setting for the verdict above reports, for profilers that record steps.
macro_rules! verdict_setting {
    () => {
        /// Enables or disables the sentence above each report that states where the time of a step
        /// goes and what bounds it. It is enabled by default: see
        /// [`Output::verdict`](crate::Output::verdict).
        #[must_use]
        pub fn verdict(mut self, shows_it: bool) -> Self {
            self.output = self.output.verdict(shows_it);
            self
        }
    };
}
pub(crate) use verdict_setting;

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::allocation::AllocationProfiler;
    use crate::{
        AdvancedProfiler, NumericsProfiler, Output, Profiler, SimpleProfiler, TensorProfiler,
    };

    /// Compiles each pair of settings in both orders and passes the profilers to `$check`.
    macro_rules! in_both_orders {
        ($new:expr, $check:expr, [$($method:ident $arguments:tt),+]) => {
            in_both_orders!(@each $new, $check, [$($method $arguments),+], [$($method $arguments),+])
        };
        (@each $new:expr, $check:expr, [$($method:ident $arguments:tt),+], $all:tt) => {
            $(in_both_orders!(@with $new, $check, $method $arguments, $all);)+
        };
        (@with $new:expr, $check:expr, $method:ident $arguments:tt, [$($other:ident $others:tt),+]) => {
            $($check(&$new.$method $arguments.$other $others);)+
        };
    }

    fn has_a_report(profiler: &impl Profiler) {
        assert!(profiler.output().is_some() && !profiler.summary().is_empty());
    }

    #[test]
    fn settings_of_a_simple_profiler_stand_in_any_order() {
        in_both_orders!(
            SimpleProfiler::new(),
            has_a_report,
            [
                detailed(),
                short(),
                measure_cpu(),
                measure_io(),
                html(false),
                dirpath("logs"),
                filename("run"),
                findings(false),
                all_rows(true),
                output_to(Output::new())
            ]
        );
        // All settings are also available after the methods that change the type.
        has_a_report(
            &SimpleProfiler::new()
                .measure_io()
                .measure_cpu()
                .measure_io()
                .detailed()
                .short()
                .html(false)
                .all_rows(true)
                .dirpath("logs")
                .filename("run")
                .findings(false)
                .output_to(Output::new()),
        );
    }

    #[test]
    fn settings_of_the_other_profilers_stand_in_any_order() {
        in_both_orders!(
            AdvancedProfiler::new(),
            has_a_report,
            [
                dump_stats(false),
                html(false),
                dirpath("logs"),
                filename("run"),
                findings(false),
                all_rows(true),
                output_to(Output::new())
            ]
        );
        in_both_orders!(
            TensorProfiler::new(),
            has_a_report,
            [
                without_schedule(),
                record_shapes(true),
                profile_memory(true),
                group_by_module(true),
                html(false),
                filename("run"),
                findings(false),
                all_rows(true),
                output_to(Output::new())
            ]
        );
        in_both_orders!(
            AllocationProfiler::new(),
            has_a_report,
            [
                html(false),
                filename("run"),
                findings(false),
                all_rows(true),
                output_to(Output::new())
            ]
        );
        in_both_orders!(
            NumericsProfiler::new(),
            has_a_report,
            [
                every(1),
                html(false),
                filename("run"),
                findings(false),
                all_rows(true),
                output_to(Output::new())
            ]
        );
    }
}
