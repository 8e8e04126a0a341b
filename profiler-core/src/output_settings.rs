//! Where a profiler's reports go: the settings that all profilers have.

/// The settings of a profiler's field `output`, among its own. `$kind`: the profiler in one word.
/// `$beside`: what else goes to the directory.
macro_rules! output_settings {
    ($kind:literal, $beside:literal) => {
        #[doc = concat!(
            "Writes reports to files in this directory, if there is a [`filename`](Self::filename) too",
            $beside,
            "."
        )]
        #[must_use]
        pub fn dirpath(mut self, dirpath: impl Into<std::path::PathBuf>) -> Self {
            self.output = self.output.dirpath(dirpath);
            self
        }

        /// Writes reports to `{stage}-{filename}[-{rank}].txt`; see [`Output`](crate::Output).
        #[must_use]
        pub fn filename(mut self, filename: impl Into<String>) -> Self {
            self.output = self.output.filename(filename);
            self
        }

        /// Whether what costs time that could be saved is looked for at the end and told, as it is
        /// unless this says `false`; see [`Output::findings`](crate::Output::findings).
        #[must_use]
        pub fn findings(mut self, looks_for_them: bool) -> Self {
            self.output = self.output.findings(looks_for_them);
            self
        }

        /// Whether every report is written as an HTML page, too: `{stage}-{filename}[-{rank}].html` in
        /// the directory of the report files. It is one file that needs no network; see
        /// [`page`](crate::report::page).
        #[must_use]
        pub fn html(mut self, writes: bool) -> Self {
            self.output = self.output.html(writes);
            self
        }

        /// Says all about where reports go.
        #[must_use]
        pub fn output_to(mut self, output: crate::Output) -> Self {
            self.output = output.of_kind($kind);
            self
        }
    };
}
pub(crate) use output_settings;
