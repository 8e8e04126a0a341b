//! Tables of steps and sums: windows, phases, stages, modules and ops.

use std::io;

use parquet::data_type::ByteArray;

use super::{Writer, signed};
use crate::classify::work_of;
use crate::columns::file::Source;
use crate::columns::schema::{MODULES, OPS, PAUSES, PHASES, STAGES, STEP_PARTS, STEPS, WINDOWS};
use crate::host::steps;
use crate::ranks::stages;
use crate::rollups::Rollups;
use crate::trace::Name;

impl Writer<'_> {
    /// Writes the step parts, the window and the recording pauses.
    pub(super) fn stretches(&self) -> io::Result<()> {
        let parts = self.steps.iter().filter_map(|step| Some((step.number?, &step.parts)));
        let parts = parts.flat_map(|(step, parts)| parts.iter().map(move |part| (step, *part)));
        let mut parts: Vec<(u64, (i64, i64))> = parts.collect();
        parts.sort_unstable_by_key(|(_, part)| *part);
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| signed(parts[row].0)),
            Source::integers(|row| parts[row].1.0),
            Source::integers(|row| parts[row].1.1 - parts[row].1.0),
        ];
        self.write(&STEP_PARTS, parts.len(), &sources)?;
        let window = steps::window(self.trace, &self.steps);
        for (table, all) in [(WINDOWS, window.parts()), (PAUSES, self.trace.info.pauses.as_slice())]
        {
            let sources = [
                self.rank(),
                self.cycle(),
                Source::integers(|row| all[row].0),
                Source::integers(|row| all[row].1.saturating_sub(all[row].0)),
            ];
            self.write(&table, all.len(), &sources)?;
        }
        Ok(())
    }

    /// Writes the step stages that the multi-rank analysis compares, so that fleet queries find the
    /// same stragglers.
    pub(super) fn phases(&self) -> io::Result<()> {
        let all = stages::stages();
        let of_steps = stages::of_steps(self.trace, &self.meanings, &self.steps);
        let step = |row: usize| &of_steps[row / all.len()];
        let place = |row: usize| row % all.len();
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| signed(step(row).0)),
            Source::maybe_texts(|_| self.trace.info.stage.clone()),
            Source::integers(|row| place(row) as i64),
            Source::texts(|row| all[place(row)].name.clone()),
            Source::integers(|row| all[place(row)].waits_for_others.into()),
            Source::integers(|row| step(row).1[place(row)]),
        ];
        self.write(&PHASES, of_steps.len() * all.len(), &sources)
    }

    pub(super) fn rollups(&self) -> io::Result<()> {
        let sums = Rollups::of_steps(self.trace, &self.meanings, &self.steps);
        let texts: Vec<ByteArray> = sums.names.all().map(ByteArray::from).collect();
        let named = |name: Name| Some(texts[name.0 as usize].clone());
        let (steps, stages) = (&sums.steps, &sums.stages);
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| signed(steps[row].number)),
            Source::maybe_texts(|_| sums.info.stage.clone()),
            Source::integers(|row| steps[row].start),
            Source::integers(|row| steps[row].duration),
            Source::integers(|row| steps[row].waiting_for_data),
        ];
        self.write(&STEPS, steps.len(), &sources)?;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::integers(|row| signed(stages[row].step)),
            Source::integers(|row| signed(stages[row].order)),
            Source::Texts(Box::new(|row| named(stages[row].action))),
            Source::integers(|row| stages[row].duration),
        ];
        self.write(&STAGES, stages.len(), &sources)?;
        let modules = &sums.modules;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::maybe(|row| modules[row].step.map(signed)),
            Source::Texts(Box::new(|row| named(modules[row].module))),
            Source::integers(|row| modules[row].calls),
            Source::integers(|row| modules[row].own),
            Source::integers(|row| modules[row].device),
        ];
        self.write(&MODULES, modules.len(), &sources)?;
        let ops = &sums.ops;
        let sources = [
            self.rank(),
            self.cycle(),
            Source::maybe(|row| ops[row].step.map(signed)),
            self.categories(|row| ops[row].category),
            Source::Texts(Box::new(|row| named(ops[row].name))),
            Source::Texts(Box::new(|row| {
                let kind = work_of(ops[row].category, sums.name(ops[row].name))?;
                Some(ByteArray::from(kind.as_str()))
            })),
            Source::integers(|row| ops[row].count),
            Source::integers(|row| ops[row].total),
            Source::integers(|row| ops[row].own),
            Source::integers(|row| ops[row].min),
            Source::integers(|row| ops[row].max),
            Source::integers(|row| ops[row].device),
        ];
        self.write(&OPS, ops.len(), &sources)
    }
}
