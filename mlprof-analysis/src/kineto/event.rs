//! Event fields as written in a file. Other fields are skipped.

use serde_json::value::RawValue;

use super::fields::tolerant_struct;
use super::values::{Integer, Place, Text};
use super::work::WrittenInputs;
use crate::trace::Message;

tolerant_struct! {
    /// A trace event.
    pub(super) struct Event<'a> {
        ph: Text<'a> = "ph",
        cat: Text<'a> = "cat",
        name: Text<'a> = "name",
        pid: Place = "pid",
        tid: Place = "tid",
        /// Start in microseconds. All times in a file are microseconds.
        ts: Option<&'a RawValue> = "ts",
        dur: Option<&'a RawValue> = "dur",
        id: Integer = "id" | "bind_id",
        /// Id of an asynchronous slice, either global or local to its process.
        scoped_id: Option<&'a RawValue> = "id2",
        args: Option<&'a RawValue> = "args",
    }
}

tolerant_struct! {
    /// Arguments of slices.
    pub(super) struct SliceArguments<'a> {
        /// Correlation id. The other keys are those of XProf and Ascend.
        correlation: Integer = "correlation" | "correlation_id" | "connection_id",
        sequence: Integer = "Sequence number",
        bytes: Integer = "bytes" | "Bytes",
        flops: Integer = "flops",
        stream: Integer = "stream",
        /// Stream and event record that a wait refers to.
        wait_on_stream: Integer = "wait_on_stream",
        recorded_by: Integer = "wait_on_cuda_event_record_corr_id",
        shapes: Option<&'a RawValue> = "Input Dims" | "Input dims",
        types: Option<&'a RawValue> = "Input type",
        values: Option<&'a RawValue> = "Concrete Inputs",
        /// Message and process group of a collective.
        collective: Text<'a> = "Collective name",
        collective_number: Integer = "Seq",
        dtype: Option<&'a RawValue> = "dtype",
        in_elements: Integer = "In msg nelems",
        out_elements: Integer = "Out msg nelems",
        group_size: Integer = "Group size",
        group: Option<&'a RawValue> = "Process Group Name",
        ranks: Option<&'a RawValue> = "Process Group Ranks",
        called_from: Text<'a> = "Called from",
        /// Launch configuration of a kernel.
        grid: Option<&'a RawValue> = "grid",
        block: Option<&'a RawValue> = "block",
        registers: Integer = "registers per thread",
        shared_memory: Integer = "shared memory",
        occupancy: Integer = "est. achieved occupancy %",
        /// Training step number in XProf's traces.
        step: Integer = "step_num",
    }
}

impl SliceArguments<'_> {
    /// Returns the message of a collective as JSON for
    /// [`Details::message`](crate::trace::Details::message). `None` if neither its size nor its
    /// group is known.
    pub(super) fn message(&self) -> Option<String> {
        let collective = Some(&*self.collective).filter(|name| !name.is_empty())?;
        let (sent, received) = (self.in_elements.natural(), self.out_elements.natural());
        let text = |value: Option<&RawValue>| {
            value.map_or("", |value| value.get().trim_matches('"')).to_owned()
        };
        let message = Message {
            collective: collective.to_owned(),
            dtype: text(self.dtype),
            in_elements: sent,
            out_elements: received,
            group_size: self.group_size.natural(),
            group: text(self.group),
            ranks: text(self.ranks),
        };
        let is_known = sent > 0
            || received > 0
            || message.group_size > 0
            || !message.group.is_empty()
            || !message.ranks.is_empty();
        is_known.then(|| message.json())
    }

    /// Returns the inputs of an op, if shapes and types are known.
    pub(super) fn inputs(&self) -> Option<WrittenInputs<'_>> {
        let (dimensions, types) = (self.shapes?, self.types?);
        Some(WrittenInputs { dimensions, types, values: self.values })
    }

    /// Returns the launch configuration for [`Details::launch`](crate::trace::Details::launch).
    /// `None` if the slice is not a kernel.
    pub(super) fn launch(&self) -> Option<String> {
        let sizes = |list: &RawValue| -> String {
            list.get().chars().filter(|letter| letter.is_ascii_digit() || *letter == ',').collect()
        };
        let (grid, block) = (sizes(self.grid?), sizes(self.block?));
        let (registers, shared) = (self.registers.natural(), self.shared_memory.natural());
        let occupancy = self.occupancy.natural();
        Some(format!(
            "regs:{registers} static_shared:0 dynamic_shared:{shared} grid:{grid} block:{block} \
             occ_pct:{occupancy}"
        ))
    }
}

tolerant_struct! {
    /// Arguments of memory events.
    pub(super) struct MemoryArguments<'a> {
        address: Option<&'a RawValue> = "Addr",
        bytes: Integer = "Bytes",
        allocated: Integer = "Total Allocated",
        reserved: Integer = "Total Reserved",
        /// Device type, where 0 is the host.
        device_type: Integer = "Device Type",
        device: Integer = "Device Id",
    }
}

tolerant_struct! {
    /// Arguments of metadata events, which name processes and threads.
    pub(super) struct NameArguments<'a> {
        name: Text<'a> = "name",
        labels: Text<'a> = "labels",
        sort_index: Integer = "sort_index",
    }
}
