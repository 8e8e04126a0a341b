//! Op table as an Arrow record batch, for data frames and databases.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_array::{ListArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use serde::Serialize;

use super::tensor::table::shapes_text;
use super::tensor::{KeyAverage, KeyAverages};

impl KeyAverages {
    /// Converts the rows to an Arrow record batch (feature `arrow`). Each field of [`KeyAverage`]
    /// becomes a column with the field's name, so times are in seconds and memory is in bytes. The
    /// columns `flops_per_second`, `bytes_per_second` and `flops_per_byte` are added. All tables
    /// have the same columns.
    ///
    /// The columns differ from the fields in these points:
    ///
    /// - `input_shapes` is text, formatted as in the printed tables.
    /// - `kind` and `phase` are text, as in JSON.
    /// - `rest` becomes three columns: `rest_min_seconds`, `rest_mean_seconds` and
    ///   `rest_max_seconds`.
    /// - `memory` is omitted. The four memory columns contain its sums over the devices.
    ///
    /// Unknown values are null.
    ///
    /// # Errors
    ///
    /// Returns the error of the `arrow` crate. No table can cause one.
    pub fn to_record_batch(&self) -> Result<RecordBatch, ArrowError> {
        let mut columns = Columns { rows: &self.rows, fields: Vec::new(), arrays: Vec::new() };
        columns.about();
        columns.host_time();
        columns.floats("device_seconds", |row| row.device_seconds);
        columns.floats("self_device_seconds", |row| row.self_device_seconds);
        columns.integers("cpu_memory_bytes", |row| row.cpu_memory_bytes);
        columns.integers("self_cpu_memory_bytes", |row| row.self_cpu_memory_bytes);
        columns.integers("device_memory_bytes", |row| row.device_memory_bytes);
        columns.integers("self_device_memory_bytes", |row| row.self_device_memory_bytes);
        columns.counts("flops", |row| row.flops);
        columns.optional_floats("flops_per_second", KeyAverage::flops_per_second);
        columns.optional_counts("moved_bytes", |row| row.moved_bytes);
        columns.optional_floats("bytes_per_second", KeyAverage::bytes_per_second);
        columns.optional_floats("flops_per_byte", KeyAverage::flops_per_byte);
        RecordBatch::try_new(Arc::new(Schema::new(columns.fields)), columns.arrays)
    }
}

struct Columns<'table> {
    rows: &'table [KeyAverage],
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns<'_> {
    fn about(&mut self) {
        self.texts("name", false, |row| Some(row.name.clone()));
        self.texts("kind", false, |row| json_name(&row.kind));
        self.flags("is_on_device", |row| row.is_on_device);
        self.flags("is_top_level", |row| row.is_top_level);
        self.texts("input_shapes", true, |row| row.input_shapes.as_deref().map(shapes_text));
        self.stacks();
        self.texts("module", true, |row| row.module.clone());
        self.texts("phase", true, |row| row.phase.map(|phase| phase.as_str().to_owned()));
        self.counts("calls", |row| row.calls);
        self.counts("polls", |row| row.polls);
    }

    fn host_time(&mut self) {
        self.floats("cpu_seconds", |row| row.cpu_seconds);
        self.floats("self_cpu_seconds", |row| row.self_cpu_seconds);
        self.floats("first_seconds", |row| row.first_seconds);
        self.optional_floats("rest_min_seconds", |row| row.rest.map(|rest| rest.min_seconds));
        self.optional_floats("rest_mean_seconds", KeyAverage::rest_mean_seconds);
        self.optional_floats("rest_max_seconds", |row| row.rest.map(|rest| rest.max_seconds));
    }

    fn add(&mut self, name: &str, is_nullable: bool, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), is_nullable));
        self.arrays.push(array);
    }

    fn texts(&mut self, name: &str, nullable: bool, pick: impl Fn(&KeyAverage) -> Option<String>) {
        let array: StringArray = self.rows.iter().map(pick).collect();
        self.add(name, nullable, Arc::new(array));
    }

    fn flags(&mut self, name: &str, pick: impl Fn(&KeyAverage) -> bool) {
        let array: BooleanArray = self.rows.iter().map(|row| Some(pick(row))).collect();
        self.add(name, false, Arc::new(array));
    }

    fn floats(&mut self, name: &str, pick: impl Fn(&KeyAverage) -> f64) {
        let array = Float64Array::from_iter_values(self.rows.iter().map(pick));
        self.add(name, false, Arc::new(array));
    }

    fn optional_floats(&mut self, name: &str, pick: impl Fn(&KeyAverage) -> Option<f64>) {
        let array: Float64Array = self.rows.iter().map(pick).collect();
        self.add(name, true, Arc::new(array));
    }

    fn integers(&mut self, name: &str, pick: impl Fn(&KeyAverage) -> i64) {
        let array = Int64Array::from_iter_values(self.rows.iter().map(pick));
        self.add(name, false, Arc::new(array));
    }

    fn counts(&mut self, name: &str, pick: impl Fn(&KeyAverage) -> u64) {
        let array = UInt64Array::from_iter_values(self.rows.iter().map(pick));
        self.add(name, false, Arc::new(array));
    }

    fn optional_counts(&mut self, name: &str, pick: impl Fn(&KeyAverage) -> Option<u64>) {
        let array: UInt64Array = self.rows.iter().map(pick).collect();
        self.add(name, true, Arc::new(array));
    }

    /// Adds the stacks as lists of text, innermost frame first.
    fn stacks(&mut self) {
        let item = Field::new("item", DataType::Utf8, false);
        let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item);
        for row in self.rows {
            row.stack.iter().for_each(|place| lists.values().append_value(place));
            lists.append(true);
        }
        let array: ListArray = lists.finish();
        self.add("stack", false, Arc::new(array));
    }
}

/// Returns the JSON name of an enum value without fields.
fn json_name(value: &impl Serialize) -> Option<String> {
    let value = serde_json::to_value(value).ok()?;
    value.as_str().map(str::to_owned)
}
